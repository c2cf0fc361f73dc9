"""TA: temporally-aware supervised contrastive learning (Parolari et al. 2025, MICCAI).

The batches of Sup; the target falls with the distance in time between two tracklets of a polyp, as e^(-λ |t_i - t_j|),
t from 0 at the polyp's first frame to 1 at its last.
"""

from torch import Tensor

from polyptrace.config import Config
from polyptrace.losses import temporally_aware
from polyptrace.methods import ours, sup
from polyptrace.methods.batch import Method, Targets


def loss(z: Tensor, targets: Targets, config: Config) -> tuple[Tensor, dict[str, Tensor]]:
    """Softmax over all others against a target over those of the same polyp that prefers the near ones."""
    sharp, decay = config.loss.temperature, config.views.decay
    return temporally_aware(z[:, 0], targets.group, targets.position, sharp, decay), {}


METHOD = Method(
    "ta", labels="always", defaults={"loss": {"temperature": 0.25}}, encoder=ours.encoder, plan=sup.plan, loss=loss
)
