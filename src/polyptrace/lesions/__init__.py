"""Lesions: from tracks to lesions, with the probability that two tracks show the same one."""

from polyptrace.lesions.clustering import (
    PairScores,
    Partition,
    count_interval,
    group_scores,
    pair_scores,
    partition,
    weakest_link,
)
from polyptrace.lesions.fitting import fit_same
from polyptrace.lesions.procedure_lesions import SIGHTING_GAP_S, Link, ProcedureLesions, lesions, same_model
from polyptrace.lesions.same import SAME_FILE, ProcedureTracks, SameModel, check_frames, procedures

__all__ = [
    "SAME_FILE",
    "SIGHTING_GAP_S",
    "Link",
    "PairScores",
    "Partition",
    "ProcedureLesions",
    "ProcedureTracks",
    "SameModel",
    "check_frames",
    "count_interval",
    "fit_same",
    "group_scores",
    "lesions",
    "pair_scores",
    "partition",
    "procedures",
    "same_model",
    "weakest_link",
]
