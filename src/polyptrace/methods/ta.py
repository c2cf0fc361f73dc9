"""TA: temporally-aware supervised contrastive learning (Parolari et al. 2025, MICCAI).

The batches are those of Sup. The target decreases with the distance in time between two tracklets of a polyp as
e^(-λ |t_i - t_j|), with t from 0 at the polyp's first frame to 1 at its last.
"""

from torch import Tensor

from polyptrace.config import Config
from polyptrace.losses import temporally_aware
from polyptrace.methods import ours, sup
from polyptrace.methods.method import Targets, TrainingMethod


def loss(z: Tensor, targets: Targets, config: Config) -> tuple[Tensor, dict[str, Tensor]]:
    """Softmax over all other tracklets against a target that prefers those of the same polyp close in time."""
    temperature, decay, mask = config.loss.temperature, config.views.decay, targets.tracklet >= 0
    return temporally_aware(z[:, 0], targets.group, targets.position, temperature, decay, mask=mask), {}


METHOD = TrainingMethod(
    "ta", labels="always", defaults={"loss": {"temperature": 0.25}}, encoder=ours.encoder, plan=sup.plan, loss=loss
)
