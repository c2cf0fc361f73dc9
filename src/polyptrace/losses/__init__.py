"""Contrastive losses: pure functions of vectors that return the mean over anchors."""

from polyptrace.losses.contrastive import (
    frame_vectors,
    multi_positive,
    noise_aware_symmetric,
    nt_xent,
    temporally_aware,
)
from polyptrace.losses.masking import repeated_members, repeated_tracklets
from polyptrace.losses.noise_aware import condition_satisfied, gradient_share, noise_aware, noise_aware_frames

__all__ = [
    "condition_satisfied",
    "frame_vectors",
    "gradient_share",
    "multi_positive",
    "noise_aware",
    "noise_aware_frames",
    "noise_aware_symmetric",
    "nt_xent",
    "repeated_members",
    "repeated_tracklets",
    "temporally_aware",
]
