"""Tables, figures and one self-contained HTML page from results folders."""

from polyptrace.report.film_strips import CropImages, TrackImages, film_strip
from polyptrace.report.gallery import strip
from polyptrace.report.markup import latex, markdown, write_table
from polyptrace.report.page import (
    Block,
    Card,
    Cards,
    Heading,
    Page,
    Paragraph,
    Picture,
    Plots,
    Section,
    Strip,
    StripRow,
    Strips,
    Tile,
    render_page,
    render_table,
)
from polyptrace.report.ranking import MAIN, Measure, measured
from polyptrace.report.runs import Run, load_run
from polyptrace.report.sections import COLOUR_GRID
from polyptrace.report.tables import (
    AblationRow,
    Table,
    block_table,
    card_results,
    difference_table,
    method_table,
    sweep_table,
)
from polyptrace.report.timeline import Procedure, timeline
from polyptrace.report.write import GENERATED_NOTICE, PAGE_FILE, ReportOptions, check_dataset, write_report

__all__ = [
    "COLOUR_GRID",
    "GENERATED_NOTICE",
    "MAIN",
    "PAGE_FILE",
    "AblationRow",
    "Block",
    "Card",
    "Cards",
    "CropImages",
    "Heading",
    "Measure",
    "Page",
    "Paragraph",
    "Picture",
    "Plots",
    "Procedure",
    "ReportOptions",
    "Run",
    "Section",
    "Strip",
    "StripRow",
    "Strips",
    "Table",
    "Tile",
    "TrackImages",
    "block_table",
    "card_results",
    "check_dataset",
    "difference_table",
    "film_strip",
    "latex",
    "load_run",
    "markdown",
    "measured",
    "method_table",
    "render_page",
    "render_table",
    "strip",
    "sweep_table",
    "timeline",
    "write_report",
    "write_table",
]
