"""Metrics of vectors: retrieval, re-identification, size, histology and counting, with intervals and tests."""

from polyptrace.evaluate.bootstrap import (
    Estimate,
    Paired,
    draw_counts,
    holm,
    interval,
    mean_draws,
    nested_draws,
    paired,
)
from polyptrace.evaluate.comparison import combine, compare
from polyptrace.evaluate.counting import DEFAULT_SETTING, Counting, cluster, count, count_lesions
from polyptrace.evaluate.evaluation import evaluate, evaluate_files
from polyptrace.evaluate.inputs import join_inputs
from polyptrace.evaluate.probe import Probe, adenoma, larger, probe
from polyptrace.evaluate.reid import ReID, reid
from polyptrace.evaluate.reid_bootstrap import reid_draws
from polyptrace.evaluate.results import (
    GROUPS,
    LABEL_USE,
    RESULTS_FILE,
    TRACK_LIST,
    Method,
    Metric,
    Results,
    Task,
    method_of,
)
from polyptrace.evaluate.retrieval import Retrieval, retrieval
from polyptrace.evaluate.similarity import unit_vectors
from polyptrace.evaluate.tasks import TASKS

__all__ = [
    "DEFAULT_SETTING",
    "GROUPS",
    "LABEL_USE",
    "RESULTS_FILE",
    "TASKS",
    "TRACK_LIST",
    "Counting",
    "Estimate",
    "Method",
    "Metric",
    "Paired",
    "Probe",
    "ReID",
    "Results",
    "Retrieval",
    "Task",
    "adenoma",
    "cluster",
    "combine",
    "compare",
    "count",
    "count_lesions",
    "draw_counts",
    "evaluate",
    "evaluate_files",
    "holm",
    "interval",
    "join_inputs",
    "larger",
    "mean_draws",
    "method_of",
    "nested_draws",
    "paired",
    "probe",
    "reid",
    "reid_draws",
    "retrieval",
    "unit_vectors",
]
