"""Comparisons: the rows and variants of a table, their trials, running them, and the search for learning rates."""

from polyptrace.compare.processes import Workers
from polyptrace.compare.rates import FILE as RATES_FILE
from polyptrace.compare.rates import choose_rates, read_rates, search_trials, write_rates
from polyptrace.compare.rows import ALL, ROWS, ComparisonRow, folder_name, frozen_row, resolve, select_rows
from polyptrace.compare.runner import ERROR, Failure, Keep, failure_of, run_trial, run_trials, with_starts
from polyptrace.compare.trial import (
    ROWS_FOLDER,
    SECTIONS,
    SWEEP_FOLDER,
    VARIANTS_FOLDER,
    Datasets,
    Shared,
    Step,
    Trial,
    frames_of_ours,
    make_trial,
)
from polyptrace.compare.variants import BLOCKS, OURS, SWEEP, AblationBlock, select_blocks, variant

__all__ = [
    "ALL",
    "BLOCKS",
    "ERROR",
    "OURS",
    "RATES_FILE",
    "ROWS",
    "ROWS_FOLDER",
    "SECTIONS",
    "SWEEP",
    "SWEEP_FOLDER",
    "VARIANTS_FOLDER",
    "AblationBlock",
    "ComparisonRow",
    "Datasets",
    "Failure",
    "Keep",
    "Shared",
    "Step",
    "Trial",
    "Workers",
    "choose_rates",
    "failure_of",
    "folder_name",
    "frames_of_ours",
    "frozen_row",
    "make_trial",
    "read_rates",
    "resolve",
    "run_trial",
    "run_trials",
    "search_trials",
    "select_blocks",
    "select_rows",
    "variant",
    "with_starts",
    "write_rates",
]
