"""From vectors to figures: retrieval, re-identification, size, histology, counting, with intervals and tests."""

from polyptrace.evaluate.clustering import DEFAULT as DEFAULT_SETTING
from polyptrace.evaluate.clustering import cluster
from polyptrace.evaluate.comparing import combine, compare
from polyptrace.evaluate.counting import Counting, count
from polyptrace.evaluate.files import evaluate_files
from polyptrace.evaluate.histology import adenoma, larger
from polyptrace.evaluate.probe import Probe, probe
from polyptrace.evaluate.reid import ReID, reid, reid_draws
from polyptrace.evaluate.results import GROUPS, LABEL_USE, RESULTS_FILE, TRACK_LIST, Method, Metric, Results, Task
from polyptrace.evaluate.retrieval import Retrieval, retrieval
from polyptrace.evaluate.running import TASKS, evaluate, method_of
from polyptrace.evaluate.significance import (
    Paired,
    draw_counts,
    holm,
    interval,
    mean_draws,
    nested_draws,
    paired,
)

__all__ = [
    "DEFAULT_SETTING",
    "GROUPS",
    "LABEL_USE",
    "RESULTS_FILE",
    "TASKS",
    "TRACK_LIST",
    "Counting",
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
    "draw_counts",
    "evaluate",
    "evaluate_files",
    "holm",
    "interval",
    "larger",
    "mean_draws",
    "method_of",
    "nested_draws",
    "paired",
    "probe",
    "reid",
    "reid_draws",
    "retrieval",
]
