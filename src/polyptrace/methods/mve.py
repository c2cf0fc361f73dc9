"""MVE: a multi-view encoder (Intrator et al. 2023), SimCLR over two views of the same track that never overlap.

A track is drawn with weight √(stored frames), different ones for a batch; how views are cut is in `views.py`. An epoch
is as many pairs as show about as many frames as the tracks have. The encoder is ours, as in the table; the published
widths are `--encoder.width 128 --encoder.feed_forward 2048`. The published batch size is not recorded; 30 pairs are the
60 tracklets of ours.
"""

import numpy as np

from polyptrace.config import Config
from polyptrace.data import pad_rows
from polyptrace.methods import ours
from polyptrace.methods.batch import Batch, Data, Epoch, Method, Plan, generator, labels_seen
from polyptrace.methods.views import draw_tracks, pair_batch, pair_loss, pairs_per_batch, steps_of, tracks_of, two_views


def plan(data: Data, config: Config) -> Plan:
    """Pairs of views of one track each."""
    tracks = tracks_of(data)
    pairs, remarks = pairs_per_batch(config, len(tracks), "tracks")
    steps = steps_of(tracks, pairs)

    def epoch(number: int, _epochs: int) -> Epoch:
        def batch(step: int) -> Batch:
            random = generator(config.train.seed, number, step)
            drawn = draw_tracks(tracks.count, pairs, random)
            views = [view for i in drawn for view in two_views(tracks.rows[i], tracks.length, random)]
            owners = np.repeat(tracks.index[drawn], 2).reshape(-1, 2)
            return pair_batch(pad_rows(views, tracks.length).reshape(pairs, 2, -1), owners)

        return Epoch(steps, batch)

    return Plan(epoch, lambda epochs: epochs * steps, remarks, labels_seen(data, "none"))


METHOD = Method(
    "mve",
    labels="never",
    defaults={
        "views": {"batch": 30},
        "optimiser": {"name": "adam", "lr": 1e-4, "weight_decay": 0.0},
    },
    encoder=ours.encoder,
    plan=plan,
    loss=pair_loss,
)
