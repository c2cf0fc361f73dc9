"""The learning rate of each method, by the same small search for all, on development data alone.

Every method is trained once with each rate on one dataset and measured by retrieval mAP on another; the best rate is
written to `rates.json` and used for all its rows. Neither dataset may be one that the table is about.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from polyptrace.compare.plan import SEARCH_FOLDER, Data, Given, Trial, make_trial
from polyptrace.compare.rows import Row
from polyptrace.compare.running import failure_of
from polyptrace.core.errors import UserError
from polyptrace.core.files import provenance, read_json, write_json
from polyptrace.evaluate import Results

FILE = "rates.json"
LR = "optimiser.lr"


def searched(rows: Sequence[Row]) -> list[Row]:
    """The rows that have a rate to be found: those that are trained, but not for nothing."""
    return [row for row in rows if row.method and row.settings.get("train.epochs") != "0"]


def search_trials(
    rows: Sequence[Row], rates: Sequence[float], data: Data, given: Given, extra: Mapping[str, str]
) -> list[Trial]:
    """A trial for each row and rate, at the first training seed."""
    return [
        make_trial(row, 0, f"{SEARCH_FOLDER}/{row.name}/lr{rate:g}", data, given, {**extra, LR: f"{rate:g}"})
        for row in searched(rows)
        for rate in rates
    ]


def choose_rates(trials: Sequence[Trial], data: Data) -> dict[str, Any] | None:
    """The content of `rates.json`: for each row all rates with their mAP (null where it failed), and the best.

    None while there are trials that neither ended nor failed.
    """
    failed = {trial.key: failure_of(trial) for trial in trials if not trial.done}
    if not all(failed.values()):
        return None
    rows: dict[str, dict[str, Any]] = {}
    for trial in trials:
        found = _map(trial) if trial.done else None
        rows.setdefault(trial.row.name, {"tried": {}})["tried"][f"{trial.config.optimiser.lr:g}"] = found
    for told in rows.values():
        working = {rate: value for rate, value in told["tried"].items() if value is not None}
        best = max(working, key=lambda rate: working[rate], default=None)
        ordered = sorted(told["tried"], key=float)
        told["rate"] = None if best is None else float(best)
        told["at_the_end"] = len(ordered) > 1 and best in (ordered[0], ordered[-1])
    return {
        "criterion": "retrieval mAP",
        "train": str(data.train),
        "test": [str(test) for test in data.tests],
        "rows": rows,
        "failed": failed,
        "made_by": provenance(),
    }


def write_rates(out: Path, content: Mapping[str, Any]) -> Path:
    """Writes `rates.json` into the comparison's folder."""
    write_json(out / FILE, dict(content))
    return out / FILE


def read_rates(path: Path) -> dict[str, float]:
    """The rate of each row that has one, of a file that a search wrote."""
    content = read_json(path)
    if not isinstance(content, dict) or "rows" not in content:
        raise UserError(f"{path}: not a file of learning rates -> give the {FILE} that a search wrote")
    return {name: told["rate"] for name, told in content["rows"].items() if told["rate"] is not None}


def rate_setting(row: Row, rates: Mapping[str, float]) -> dict[str, str]:
    """The setting of a row's rate; a variant without one of its own has that of its method."""
    rate = rates.get(row.name, rates.get(row.method))
    if rate is None or not searched([row]):
        return {}
    return {LR: f"{rate:g}"}


def _map(trial: Trial) -> float:
    task = Results.load(trial.results).tasks.get("retrieval")
    if task is None or task.status != "done":
        reason = task.reason if task is not None else "it was not evaluated"
        raise UserError(f"{trial.key}: no retrieval mAP to choose by ({reason}) -> search on data with polyp labels")
    return task.metrics["map"].value
