"""MVE: multi-view encoder (Intrator et al. 2023), SimCLR over two views of the same track that never overlap.

The views are those of `views.py`. In the release MVE starts from a trained SFE (`--init-from SFE_RUN`). The encoder is
ours, as in the table; the published widths are `--encoder.width 128 --encoder.feed-forward 2048`. The published batch
size is not recorded; 30 pairs are as many tracklets as a batch of ours.
"""

from polyptrace.config import Config
from polyptrace.methods import ours
from polyptrace.methods.method import Data, TrainingMethod, TrainingPlan, labels_seen
from polyptrace.methods.views import track_frames, track_pair_loss, track_pairs


def plan(data: Data, config: Config) -> TrainingPlan:
    """Pairs of views of one track each."""
    tracks, labels = track_frames(data, config), labels_seen(data, "none")
    return track_pairs(tracks, config, labels, lambda _epoch: (lambda track, _random: track, {}))


METHOD = TrainingMethod(
    "mve",
    labels="never",
    defaults={
        "views": {"batch": 30},
        "optimiser": {"name": "adam", "lr": 1e-4, "weight_decay": 0.0},
    },
    encoder=ours.encoder,
    plan=plan,
    loss=track_pair_loss,
)
