"""Many rows by one command: which rows, their command lines, running them, learning rates, ablations."""

from polyptrace.compare.plan import (
    ROWS_FOLDER,
    SECTIONS,
    SWEEP_FOLDER,
    VARIANTS_FOLDER,
    Data,
    Given,
    Step,
    Trial,
    frames_of_ours,
    make_trial,
    resolve,
)
from polyptrace.compare.processes import Processes
from polyptrace.compare.rates import (
    FILE as RATES_FILE,
)
from polyptrace.compare.rates import (
    choose_rates,
    rate_setting,
    read_rates,
    search_trials,
    searched,
    write_rates,
)
from polyptrace.compare.rows import ALL, ROWS, Row, chosen_rows, folder_name, frozen_row
from polyptrace.compare.running import ERROR, Execute, Failure, Keep, failure_of, recipe_of, run_trial, run_trials
from polyptrace.compare.variants import BLOCKS, OURS, SWEPT, Block, chosen_blocks, variant

__all__ = [
    "ALL",
    "BLOCKS",
    "ERROR",
    "OURS",
    "RATES_FILE",
    "ROWS",
    "ROWS_FOLDER",
    "SECTIONS",
    "SWEEP_FOLDER",
    "SWEPT",
    "VARIANTS_FOLDER",
    "Block",
    "Data",
    "Execute",
    "Failure",
    "Given",
    "Keep",
    "Processes",
    "Row",
    "Step",
    "Trial",
    "choose_rates",
    "chosen_blocks",
    "chosen_rows",
    "failure_of",
    "folder_name",
    "frames_of_ours",
    "frozen_row",
    "make_trial",
    "rate_setting",
    "read_rates",
    "recipe_of",
    "resolve",
    "run_trial",
    "run_trials",
    "search_trials",
    "searched",
    "variant",
    "write_rates",
]
