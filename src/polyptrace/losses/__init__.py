"""Contrastive losses: pure functions of vectors, mean over anchors."""

from polyptrace.losses.multi_positive import multi_positive
from polyptrace.losses.noise_aware import noise_aware, noise_aware_frames
from polyptrace.losses.noise_aware_symmetric import noise_aware_symmetric, noise_aware_symmetric_frames
from polyptrace.losses.noise_awareness import condition_satisfied, gradient_share
from polyptrace.losses.nt_xent import nt_xent
from polyptrace.losses.repeats import repeated_members, repeated_tracklets
from polyptrace.losses.temporally_aware import temporally_aware

__all__ = [
    "condition_satisfied",
    "gradient_share",
    "multi_positive",
    "noise_aware",
    "noise_aware_frames",
    "noise_aware_symmetric",
    "noise_aware_symmetric_frames",
    "nt_xent",
    "repeated_members",
    "repeated_tracklets",
    "temporally_aware",
]
