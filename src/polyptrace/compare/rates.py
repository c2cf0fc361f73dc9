"""The learning rate of each method, found by the same small search for all, on development data only.

Every method is trained once with each rate on one dataset and measured by retrieval mAP on another. The best rate is
written to `rates.json` and used for all rows of the method. Neither dataset may be part of the final comparison.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from polyptrace.compare.rows import ComparisonRow
from polyptrace.compare.runner import failure_of
from polyptrace.compare.trial import STARTS_FOLDER, Datasets, Shared, Trial, make_trial
from polyptrace.core.errors import UserError
from polyptrace.core.files import provenance, read_json
from polyptrace.core.schema import from_json
from polyptrace.evaluate import Results

RATES_FILE, SEARCH_FOLDER = "rates.json", "search"


@dataclass(frozen=True)
class SearchedRow:
    """What the search found for one row."""

    tried: dict[str, float | None]  # mAP by rate, None where the trial failed
    rate: float | None  # the best one
    at_the_end: bool  # whether the best rate is the lowest or highest that was tried

    def __post_init__(self) -> None:
        if self.rate is not None and not 0 < self.rate < math.inf:
            raise ValueError(f"rate: {self.rate} is not a positive number")


@dataclass(frozen=True)
class SearchedRates:
    """The content of `rates.json`."""

    criterion: str
    rows: dict[str, SearchedRow]
    train: str = ""
    test: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    made_by: dict[str, Any] = field(default_factory=dict)

    @property
    def known(self) -> dict[str, float]:
        """The rate of each row that has one."""
        return {name: row.rate for name, row in self.rows.items() if row.rate is not None}


def search_trials(rows: Sequence[ComparisonRow], rates: Sequence[float], data: Datasets, shared: Shared) -> list[Trial]:
    """A trial for each trained row and rate, at seed 0. Rows that others start from keep their published rate."""
    shared = replace(shared, starts=f"{SEARCH_FOLDER}/{STARTS_FOLDER}")
    return [
        make_trial(row, 0, f"{SEARCH_FOLDER}/{row.name}/lr{rate:g}", data, replace(shared, rates={row.name: rate}))
        for row in rows
        if row.trained
        for rate in rates
    ]


def unfinished(trials: Sequence[Trial]) -> list[str]:
    """The trials that have neither finished nor failed."""
    return [trial.key for trial in trials if not trial.done and not failure_of(trial)]


def choose_rates(trials: Sequence[Trial]) -> SearchedRates:
    """The best rate of each row of a finished search."""
    if left := unfinished(trials):
        raise UserError(f"the search for learning rates is not finished -> first run {', '.join(left)}")
    failed = {trial.key: failure_of(trial) for trial in trials if not trial.done}
    tried: dict[str, dict[str, float | None]] = {}
    for trial in trials:
        tried.setdefault(trial.row.name, {})[f"{trial.config.optimiser.lr:g}"] = _map(trial) if trial.done else None
    train, test = (str(trials[0].data.train), [str(path) for path in trials[0].data.tests]) if trials else ("", [])
    rows = {name: _best(values) for name, values in tried.items()}
    return SearchedRates("retrieval mAP", rows, train, test, failed, provenance())


def _best(tried: dict[str, float | None]) -> SearchedRow:
    values = {rate: value for rate, value in tried.items() if value is not None}
    best = max(values, key=values.__getitem__, default=None)
    ordered = sorted(tried, key=float)
    at_the_end = len(ordered) > 1 and best in (ordered[0], ordered[-1])
    return SearchedRow(tried, None if best is None else float(best), at_the_end)


def read_rates(path: Path) -> dict[str, float]:
    """The rate of each row that has one, from a `rates.json`."""
    return from_json(SearchedRates, read_json(path), str(path), f"give the {RATES_FILE} of a search").known


def _map(trial: Trial) -> float:
    task = Results.load(trial.results).tasks.get("retrieval")
    if task is None or task.status != "done":
        reason = task.reason if task is not None else "not evaluated"
        raise UserError(f"{trial.key}: has no retrieval mAP ({reason}) -> search on data with polyp labels")
    return task.metrics["map"].value
