"""Metrics of vectors: retrieval, re-identification, size, histology and counting, with intervals and tests."""

from polyptrace.evaluate.counting import Counting, count
from polyptrace.evaluate.evaluation import evaluate
from polyptrace.evaluate.probe import Probe, probe
from polyptrace.evaluate.reid import ReID, reid
from polyptrace.evaluate.results import Results
from polyptrace.evaluate.retrieval import Retrieval, retrieval

__all__ = ["Counting", "Probe", "ReID", "Results", "Retrieval", "count", "evaluate", "probe", "reid", "retrieval"]
