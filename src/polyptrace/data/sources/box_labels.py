"""Identities, sizes and histologies of boxes, as annotations write them.

Within a dataset a polyp has one id. `identity_id` and `unique_id` name a polyp in the whole dataset. All other ids, and
plain numbers under these names too, restart in each video and are qualified with its name: `video/id`.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from polyptrace.core.errors import UserError
from polyptrace.data.boxes import Boxes
from polyptrace.data.identity import polyp_keys
from polyptrace.data.sources.file_names import has_lone_surrogate
from polyptrace.data.sources.reading import NoBoxError, number

#: One box as columns of the box table.
BoxRow = dict[str, Any]

#: Every histology of the paper's datasets: 1 adenoma, 0 other, -1 excluded.
HISTOLOGY = {
    "AD": 1,
    "Low-grade adenoma": 1,
    "High-grade adenoma": 1,
    "Tubular Adenoma": 1,
    "Tubular Adenoma With High-Grade Dysplasia (HGD)": 1,
    "Tubulovillous Adenoma": 1,
    "adenomatous": 1,
    "SSL": 0,
    "TSA": 0,
    "HP": 0,
    "Traditional serrated adenoma": 0,
    "Sessile serrated lesion": 0,
    "Sessile Serrated Lesion (SSL)": 0,
    "Hyperplastic polyp": 0,
    "Inflammatory Polyp": 0,
    "hyperplastic": 0,
    "NO POLYP": -1,
    "OTHER": -1,
    "Invasive cancer (T1b)": -1,
    "Pathology Not Available": -1,
}
_BY_LOWER_CASE = {name.lower(): name for name in HISTOLOGY}
_TRACK = ("instance_id", "track_id", "track")
_POLYP_OF_DATASET = ("identity_id", "unique_id")
_POLYP_OF_VIDEO = ("polyp_id", "polyp", "lesion_id")
_UNKNOWN = ("", "na", "n/a", "nan", "none", "null", "unknown", "not available", "-", "?")
_SIZE = re.compile(
    r"(?:>=|>|≥)?\s*(?P<number>\d{1,4}(?:[.,]\d{1,6})?)\s*(?P<unit>mm|cm)?\s*(?:-|\+|–)?\s*(?P<late>mm|cm)?", re.ASCII
)


def text_of(value: object) -> str:
    """A name or an id as text; "" if it is missing."""
    name = "" if value is None else str(value)
    if has_lone_surrogate(name):
        raise UserError(f"{name[:60]!r}: a name that is not valid Unicode -> correct it")
    return name


def qualified(video: str, name: str) -> str:
    """The id in a dataset of what is called `name` within one video."""
    return f"{video}/{name.replace('/', '%2F')}" if name else ""


def polyp_id(fields: Mapping[str, object], video: str) -> str:
    """The polyp that an annotation names, unique in its dataset; "" if it names none."""
    name = _first(fields, _POLYP_OF_DATASET)
    if name and not name.isdecimal():
        return name
    return qualified(video, name or _first(fields, _POLYP_OF_VIDEO))


def label_columns(
    fields: Mapping[str, object], video: str, where: str, histology: Mapping[str, str], identities: str = "track"
) -> BoxRow:
    """Track, polyp, size, histology and score from the fields, tags or attributes of one box.

    With `identities="polyp"` the track is the polyp of a box that names none.
    """
    track = _first(fields, _TRACK)
    score = _first(fields, ("score", "confidence", "conf"))
    return {
        "track": track,
        "polyp": polyp_id(fields, video) or (qualified(video, track) if identities == "polyp" else ""),
        "size_mm": size_mm(fields.get("size_mm", fields.get("size")), where),
        "histology": histology_name(fields.get("histology", fields.get("pathology")), where, histology),
        "score": number(score, f"{where}: score") if score else np.nan,
    }


def _first(fields: Mapping[str, object], names: tuple[str, ...]) -> str:
    """The first of several fields that is present, as text."""
    return next((text for name in names if (text := text_of(fields.get(name)))), "")


def labelled_boxes(rows: list[BoxRow], if_empty: str) -> Boxes:
    """The box table of these rows; no rows, or a polyp with two sizes or two histologies, are an error."""
    if not rows:
        raise NoBoxError(if_empty)
    table = Boxes.of_rows(rows)
    one_label_per_polyp(table)
    return table


def size_mm(value: object, where: str) -> float:
    """A size in millimetres from 4, "4 mm", "11.74mm" or "1.2 cm"; "15-" (15 or more) gives 15; NaN if unknown."""
    if value is None or value != value or (isinstance(value, str) and value.strip().lower() in _UNKNOWN):  # != : NaN
        return math.nan
    size = math.nan
    if isinstance(value, int | float) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str) and (match := _SIZE.fullmatch(value.strip().lower())):
        units = {match["unit"], match["late"]} - {None}
        if len(units) <= 1:
            size = float(match["number"].replace(",", ".")) * (10 if "cm" in units else 1)
    if not 0 < size < 1000:
        raise UserError(
            f"{where}: size {str(value)[:40]!r} is not understood -> write millimetres: 4, 4 mm, 11.74mm, 15- or 15mm- "
            "(15 or more), or leave it empty if unknown"
        )
    return float(size)


def histology_name(value: object, where: str, mapping: Mapping[str, str]) -> str:
    """The name of a histology in `HISTOLOGY`, "" if unknown; `mapping` translates other names."""
    name = "" if value is None else str(value).strip()
    name = mapping.get(name, name).strip()
    if name.lower() in _UNKNOWN:
        return ""
    if name.lower() in _BY_LOWER_CASE:
        return _BY_LOWER_CASE[name.lower()]
    raise UserError(
        f"{where}: histology {name[:60]!r} is not known -> map it to a known one, --histology '{name[:60]}=AD' "
        f"(nothing after = excludes it). Known: {', '.join(HISTOLOGY)}"
    )


def label_table(
    rows: Iterable[tuple[Mapping[str, str], str]],
    polyp: Callable[[Mapping[str, str]], str],
    size: str,
    kind: str,
    histology: Mapping[str, str],
) -> dict[str, tuple[float, str]]:
    """(size, histology) of each polyp from a table's rows and their places; `size` and `kind` are its columns."""
    labels: dict[str, tuple[float, str]] = {}
    for row, where in rows:
        name = polyp(row)
        if name in labels:
            raise UserError(f"{where}: polyp {name!r} is listed twice -> give each polyp its own id")
        labels[name] = (size_mm(row[size], where), histology_name(row.get(kind), where, histology))
    return labels


def with_labels(boxes: Boxes, labels: Mapping[str, tuple[float, str]]) -> Boxes:
    """The boxes with the size and histology of their polyps."""
    of_box = [labels.get(polyp, (np.nan, "")) for polyp in boxes.polyp]
    return replace(
        boxes,
        size_mm=np.array([size for size, _ in of_box], np.float64),
        histology=np.array([kind for _, kind in of_box], object),
    )


def one_label_per_polyp(boxes: Boxes) -> None:
    """Raises an error if a polyp has two sizes or two histologies: probably two polyps share an id."""
    polyp = polyp_keys(boxes)
    for name, values, known in (
        ("sizes", boxes.size_mm, ~np.isnan(boxes.size_mm)),
        ("histologies", boxes.histology, boxes.histology != ""),
    ):
        first: dict[str, int] = {}  # row of each polyp
        for row in np.flatnonzero((boxes.polyp != "") & known).tolist():
            other = first.setdefault(polyp[row], row)
            if values[row] != values[other]:
                raise UserError(
                    f"{boxes.where(row)}: polyp {boxes.polyp[row]!r} has two {name}, {values[row]} here and "
                    f"{values[other]} at {boxes.where(other)} -> if these are two polyps, give each its own id"
                )
