"""Tables, figures and one self-contained page from results."""

from polyptrace.report.ablation import Line, block_table
from polyptrace.report.bag import bag_caption, bag_figure, bag_of, telling_anchor
from polyptrace.report.curriculum import curriculum_caption, curriculum_figures
from polyptrace.report.differences import difference_table
from polyptrace.report.film import Pictures
from polyptrace.report.markup import html, latex, markdown
from polyptrace.report.purity import Tracklets, through_curriculum
from polyptrace.report.standing import MAIN, Measure, measured
from polyptrace.report.style import Drawing
from polyptrace.report.sweep import sweep_table
from polyptrace.report.tables import Table, method_table
from polyptrace.report.tracklet_vectors import projected, training_tracklets, with_embeddings
from polyptrace.report.writing import Choices, write_report

__all__ = [
    "MAIN",
    "Choices",
    "Drawing",
    "Line",
    "Measure",
    "Pictures",
    "Table",
    "Tracklets",
    "bag_caption",
    "bag_figure",
    "bag_of",
    "block_table",
    "curriculum_caption",
    "curriculum_figures",
    "difference_table",
    "html",
    "latex",
    "markdown",
    "measured",
    "method_table",
    "projected",
    "sweep_table",
    "telling_anchor",
    "through_curriculum",
    "training_tracklets",
    "with_embeddings",
    "write_report",
]
