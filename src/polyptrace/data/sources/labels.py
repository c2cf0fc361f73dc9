"""Sizes and histologies as the datasets write them."""

import math
import re
from collections.abc import Mapping

import numpy as np

from polyptrace.core.errors import UserError
from polyptrace.data.boxes import Boxes
from polyptrace.data.identity import codes

#: every histology of the paper's datasets: 1 adenoma, 0 not, -1 left out
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

_UNKNOWN = ("", "na", "n/a", "nan", "none", "null", "unknown", "not available", "-", "?")
_SIZE = re.compile(
    r"(?:>=|>|≥)?\s*(?P<number>\d{1,4}(?:[.,]\d{1,6})?)\s*(?P<unit>mm|cm)?\s*(?:-|\+|–)?\s*(?P<late>mm|cm)?", re.ASCII
)


def size_mm(value: object, where: str) -> float:
    """A size in millimetres: 4, "4 mm", "11.74mm", "1.2 cm"; "15-" and "15mm-" (15 or more) give 15; NaN if unknown."""
    if value is None or (isinstance(value, str) and value.strip().lower() in _UNKNOWN):
        return math.nan
    size = math.nan
    if isinstance(value, int | float) and not isinstance(value, bool):
        if isinstance(value, float) and math.isnan(value):
            return math.nan
        size = float(value) if abs(value) < 1e6 else math.inf
    elif isinstance(value, str) and (found := _SIZE.fullmatch(value.strip().lower())):
        units = {found["unit"], found["late"]} - {None}
        if len(units) <= 1:
            size = float(found["number"].replace(",", ".")) * (10 if "cm" in units else 1)
    if not 0 < size < 1000:
        raise UserError(
            f"{where}: size {str(value)[:40]!r} is not understood -> write millimetres: 4, 4 mm, 11.74mm, 15- or 15mm- "
            "(15 or more), or leave it empty if unknown"
        )
    return float(np.float64(size))


def histology_name(value: object, where: str, mapping: Mapping[str, str]) -> str:
    """A histology by the name in `HISTOLOGY` ("" if unknown); a name that is not there must be in `mapping`."""
    if isinstance(value, str) and value in HISTOLOGY and not mapping:
        return value
    name = "" if value is None else str(value).strip()
    name = mapping.get(name, name).strip()
    if name.lower() in _UNKNOWN:
        return ""
    if name.lower() in _BY_LOWER_CASE:
        return _BY_LOWER_CASE[name.lower()]
    raise UserError(
        f"{where}: histology {name[:60]!r} is not known -> say which one it is, --histology '{name[:60]}=AD' (nothing "
        f"after = if it is to be left out). Known: {', '.join(HISTOLOGY)}"
    )


def one_label_per_polyp(boxes: Boxes) -> None:
    """Refuses a polyp that has two sizes or two histologies: two polyps with one id."""
    polyp = codes(boxes.polyp)
    size = np.where(np.isnan(boxes.size_mm), -1.0, boxes.size_mm)
    for name, values in (("sizes", np.unique(size, return_inverse=True)[1]), ("histologies", codes(boxes.histology))):
        known = np.flatnonzero((boxes.polyp != "") & ((size > 0) if name == "sizes" else (boxes.histology != "")))
        _, first = np.unique(polyp[known], return_index=True)
        reference = np.full(len(boxes) + 1, -1)
        reference[polyp[known[first]]] = known[first]
        other = known[values[known] != values[reference[polyp[known]]]]
        if len(other):
            row, one = other[0], reference[polyp[other[0]]]
            column = boxes.size_mm if name == "sizes" else boxes.histology
            raise UserError(
                f"{boxes.where(row)}: polyp {boxes.polyp[row]!r} has two {name}, {column[row]} here and {column[one]} "
                f"at {boxes.where(one)} -> are these two polyps with one id? Give each its own"
            )
