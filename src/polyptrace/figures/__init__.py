"""The paper's Figures 1 and 2 for any dataset: what the temporal supervision draws, and how pure it is."""

from polyptrace.figures.bags import AnchorBag, bag_at, bag_caption, bag_figure, illustrative_anchor
from polyptrace.figures.curriculum import curriculum_caption, curriculum_figures
from polyptrace.figures.run import check_runs, run_figures
from polyptrace.figures.statistics import CurriculumStatistics, curriculum_statistics
from polyptrace.figures.tracklets import TrainingTracklets, add_embeddings, add_vectors, training_tracklets

__all__ = [
    "AnchorBag",
    "CurriculumStatistics",
    "TrainingTracklets",
    "add_embeddings",
    "add_vectors",
    "bag_at",
    "bag_caption",
    "bag_figure",
    "check_runs",
    "curriculum_caption",
    "curriculum_figures",
    "curriculum_statistics",
    "illustrative_anchor",
    "run_figures",
    "training_tracklets",
]
