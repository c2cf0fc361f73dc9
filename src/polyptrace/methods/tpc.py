"""TPC: towards polyp counting (Parolari et al. 2025): MVE whose two views often come from two different tracks.

With probability α both views show one track, as in MVE; otherwise two. The second track is the nearest one in time in
the same video, without labels, or any other track of the same polyp, as in the release (`--views.source polyp`). α
decreases linearly from 0.8 to 0.4 over the first 5 epochs. In the release TPC starts from a trained SFE
(`--init-from SFE_RUN`).
"""

import numpy as np

from polyptrace.config import Config, Views
from polyptrace.data import video_keys
from polyptrace.methods import ours
from polyptrace.methods.method import Data, Ints, TrainingMethod, TrainingPlan, labels_seen, polyp_codes
from polyptrace.methods.views import Partner, track_frames, track_pair_loss, track_pairs
from polyptrace.supervision import nearest_bags


def plan(data: Data, config: Config) -> TrainingPlan:
    """Pairs of views of one track, or of two that probably (with labels: certainly) show one polyp."""
    tracks, by_polyp = track_frames(data, config), config.views.source == "polyp"
    other_track = same_polyp(data, tracks.index) if by_polyp else nearest_in_video(data, tracks.index)

    def partner_of(epoch: int) -> tuple[Partner, dict[str, float]]:
        alpha = same_track_probability(epoch, config.views)
        return lambda track, random: track if random.random() < alpha else other_track(track, random), {"alpha": alpha}

    used = "polyp identities, for second views" if by_polyp else "none"
    return track_pairs(tracks, config, labels_seen(data, used), partner_of)


def same_track_probability(epoch: int, settings: Views) -> float:
    """α of an epoch."""
    done = min(epoch / settings.alpha_epochs, 1.0) if settings.alpha_epochs else 1.0
    return settings.alpha_start + done * (settings.alpha_end - settings.alpha_start)


def nearest_in_video(data: Data, chosen: Ints) -> Partner:
    """The track of the same video that begins nearest in time; the track itself if it is alone."""
    nearest = nearest_bags(video_keys(data.tracklets)[chosen], data.tracklets.position[chosen], 1)[:, 0].numpy()
    return lambda track, _: int(nearest[track]) if nearest[track] >= 0 else track


def same_polyp(data: Data, chosen: Ints) -> Partner:
    """Any other track of the same polyp; the track itself if it is the only one."""
    polyp = polyp_codes(data, chosen)
    order = np.argsort(polyp, kind="stable")
    tracks_of_polyp = np.split(order, np.flatnonzero(np.diff(polyp[order])) + 1)  # by polyp code

    def partner(track: int, random: np.random.Generator) -> int:
        others = tracks_of_polyp[polyp[track]]
        others = others[others != track]
        return int(random.choice(others)) if len(others) else track

    return partner


METHOD = TrainingMethod(
    "tpc",
    labels="by setting",
    defaults={
        "views": {"batch": 30},
        "optimiser": {"name": "adam", "lr": 1e-4, "weight_decay": 0.0},
    },
    encoder=ours.encoder,
    plan=plan,
    loss=track_pair_loss,
)
