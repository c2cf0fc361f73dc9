"""TPC: towards polyp counting (Parolari et al. 2025): MVE, whose two views often come from two different tracks.

With probability α both views are of one track, as in MVE; otherwise they are of two: the second track is the nearest
one in time of the same video, without labels, or any other of the same polyp, as the released code has it
(`--views.source polyp`). α falls linearly from 0.8 to 0.4 over the first 5 epochs.
"""

from collections.abc import Callable

import numpy as np

from polyptrace.config import Config, Views
from polyptrace.data import pad_rows, video_keys
from polyptrace.methods import ours
from polyptrace.methods.batch import (
    Batch,
    Data,
    Epoch,
    Ints,
    Method,
    Plan,
    generator,
    labels_seen,
    polyp_codes,
)
from polyptrace.methods.views import (
    Tracks,
    draw_tracks,
    one_view,
    pair_batch,
    pair_loss,
    pairs_per_batch,
    steps_of,
    tracks_of,
    two_views,
)
from polyptrace.supervision import nearest_bags

#: The other track that a view may come from, or -1 where there is none.
Partner = Callable[[int, np.random.Generator], int]


def plan(data: Data, config: Config) -> Plan:
    """Pairs of views of one track, or of two that are probably (or, with labels, surely) of one polyp."""
    tracks = tracks_of(data)
    pairs, remarks = pairs_per_batch(config, len(tracks), "tracks")
    steps = steps_of(tracks, pairs)
    by_polyp = config.views.source == "polyp"
    partner = same_polyp(data, tracks) if by_polyp else nearest_in_video(data, tracks)

    def epoch(number: int, _epochs: int) -> Epoch:
        same_track = share_of_same_track(number, config.views)

        def batch(step: int) -> Batch:
            random = generator(config.train.seed, number, step)
            views: list[Ints] = []
            owners = []
            for i in draw_tracks(tracks.count, pairs, random).tolist():
                other = i if random.random() < same_track else partner(i, random)
                if other in (i, -1):
                    views += two_views(tracks.rows[i], tracks.length, random)
                    other = i
                else:
                    views += [one_view(tracks.rows[j], tracks.length, random) for j in (i, other)]
                owners.append((i, other))
            rows = pad_rows(views, tracks.length).reshape(pairs, 2, -1)
            return pair_batch(rows, tracks.index[np.array(owners)])

        return Epoch(steps, batch, {"same_track": same_track})

    used = "polyp identities, for second views" if by_polyp else "none"
    return Plan(epoch, lambda epochs: epochs * steps, remarks, labels_seen(data, used))


def share_of_same_track(epoch: int, settings: Views) -> float:
    """α of an epoch."""
    done = min(epoch / settings.alpha_epochs, 1.0) if settings.alpha_epochs else 1.0
    return settings.alpha_start + done * (settings.alpha_end - settings.alpha_start)


def nearest_in_video(data: Data, tracks: Tracks) -> Partner:
    """The track of the same video that begins nearest in time."""
    position = data.tracklets.position[tracks.index]
    nearest: Ints = nearest_bags(video_keys(data.tracklets)[tracks.index], position, 1)[:, 0].numpy()
    return lambda track, _: int(nearest[track])


def same_polyp(data: Data, tracks: Tracks) -> Partner:
    """Any other track of the same polyp."""
    polyp = polyp_codes(data, tracks.index)
    order = np.argsort(polyp, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(polyp[order])) + 1)
    of_polyp = {int(polyp[some[0]]): some for some in members}

    def partner(track: int, random: np.random.Generator) -> int:
        others = of_polyp[int(polyp[track])]
        others = others[others != track]
        return int(random.choice(others)) if len(others) else -1

    return partner


METHOD = Method(
    "tpc",
    labels="by setting",
    defaults={
        "views": {"batch": 30},
        "optimiser": {"name": "adam", "lr": 1e-4, "weight_decay": 0.0},
    },
    encoder=ours.encoder,
    plan=plan,
    loss=pair_loss,
)
