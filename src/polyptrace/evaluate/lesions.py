"""Which lesion each track was taken for, as a table for spreadsheets: lesions.csv of a results folder."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

COUNTING = "counting."
COLUMNS = ("dataset", "video", "track", "first_frame", "last_frame", "start_s", "end_s", "polyp")


def lesion_rows(arrays: Mapping[str, NDArray[Any]], tables: Mapping[str, str]) -> list[list[str]]:
    """A header and a line for each track, in order of procedure and time; `tables`: of each counting that was done.

    Lesions are numbered from 1 within a procedure, in the order in which they are first seen; "" where a way of
    counting left the track out.
    """
    if not tables:
        return []
    table = next(iter(tables.values()))
    ids = {
        name: arrays[f"{table}/{name}"] for name in ("dataset", "video", "track", "position", "last", "fps", "polyp")
    }
    order = np.lexsort((ids["track"], ids["position"], ids["video"], ids["dataset"]))
    lesions = {way: _numbered(arrays, way, ids, order) for way in tables}
    rows = [[*COLUMNS, *(f"lesion_{way.removeprefix(COUNTING)}" for way in tables)]]
    for row in order.tolist():
        first, last, fps = int(ids["position"][row]), int(ids["last"][row]), float(ids["fps"][row])
        known = (str(ids["dataset"][row]), str(ids["video"][row]), str(ids["track"][row]), str(first), str(last))
        times = (seconds(first, fps), seconds(last, fps))
        rows.append([*known, *times, str(ids["polyp"][row]), *(lesions[way].get(row, "") for way in tables)])
    return rows


def seconds(frame: int, fps: float) -> str:
    """When a frame is seen, "" where that is not known."""
    return f"{frame / fps:.2f}" if fps > 0 and frame >= 0 else ""


def write_csv(path: Path, rows: list[list[str]]) -> None:
    """Rows as they are; spreadsheets and pandas read it."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


def _numbered(
    arrays: Mapping[str, NDArray[Any]], way: str, ids: Mapping[str, NDArray[Any]], order: NDArray[np.int64]
) -> dict[int, str]:
    """The lesion of each track that a way of counting has seen."""
    cluster = dict(zip(arrays[f"{way}/index"].tolist(), arrays[f"{way}/cluster"].tolist(), strict=True))
    seen: dict[tuple[str, str], dict[int, int]] = {}
    lesions = {}
    for row in order.tolist():
        if row in cluster:
            of_procedure = seen.setdefault((str(ids["dataset"][row]), str(ids["video"][row])), {})
            lesions[row] = str(of_procedure.setdefault(cluster[row], len(of_procedure) + 1))
    return lesions
