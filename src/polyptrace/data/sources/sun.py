"""SUN: 100 polyp cases as folders of JPEGs, boxes in `annotation_txt/caseN.txt`.

A line is `NAME xmin,ymin,xmax,ymax,class`, class 0 a polyp, 1 none. A name ends in `_aN_…_imageNNNN.jpg`: frames follow
each other within one sub-clip only, so sub-clips are placed one after another with a gap that no track can cross.
Sizes and histologies are not in the download; `sun_cases.csv` beside this file has them from the dataset's website.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from polyptrace.core.console import counted
from polyptrace.core.errors import UserError
from polyptrace.data.boxes import Boxes
from polyptrace.data.sources.labels import histology_name, size_mm
from polyptrace.data.sources.names import folders_below, inside, natural
from polyptrace.data.sources.small_files import names_in
from polyptrace.data.sources.text import number, read_table, read_text

GAP = 1000  # frames between two sub-clips
FPS = 30.0
_CASE = re.compile(r"case(\d+)", re.ASCII)
_NAME = re.compile(r"(?P<clip>.+)_image(?P<frame>\d{1,9})\.(?:jpg|jpeg|png)", re.ASCII | re.IGNORECASE)


class _Line(NamedTuple):
    clip: str
    frame: int
    name: str
    xywh: tuple[float, float, float, float]
    line: int


def read_sun(
    path: Path,
    *,
    split: str | None = None,
    cases: Path | None = None,
    histology: Mapping[str, str] | None = None,
) -> Boxes:
    """The boxes of SUN's polyp cases below `path`, unpacked as downloaded; video and polyp are both the case.

    `cases` is another table of sizes and histologies (case_id, size_mm, pathology). SUN has no splits.
    """
    path = Path(path)
    if split:
        raise UserError(f"--split {split}: SUN has no splits -> leave it out, and split by polyp at evaluation")
    below = folders_below(path)
    texts = {
        Path(name).stem: folder / name
        for folder in below
        if folder.name == "annotation_txt"
        for name in names_in(folder, ".txt")
        if _CASE.fullmatch(Path(name).stem)
    }
    if not texts:
        raise UserError(f"{path}: no annotation_txt/caseN.txt below it -> unpack sundatabase_positive_part1 there")
    folders = {
        folder.name: folder
        for folder in below
        if _CASE.fullmatch(folder.name) and "negative" not in folder.relative_to(path).as_posix().lower()
    }
    labels = _labels(cases or Path(__file__).with_name("sun_cases.csv"), histology or {})
    tables = [_read_case(texts[case], path, folders.get(case), labels) for case in sorted(texts, key=natural)]
    table = Boxes.concatenate(tables)
    if not len(table):
        raise UserError(f"{path}: no line of annotation_txt has class 0 (polyp) -> are these the positive cases?")
    return table


def _read_case(text: Path, root: Path, folder: Path | None, labels: Mapping[str, tuple[float, str]]) -> Boxes:
    rows = [box for line, content in enumerate(read_text(text).split("\n"), 1) for box in _boxes(content, text, line)]
    clips = sorted({row.clip for row in rows}, key=natural)
    start: dict[str, int] = {}
    following = 0
    for clip in clips:
        numbers = [row.frame for row in rows if row.clip == clip]
        start[clip] = following - min(numbers)
        following += max(numbers) - min(numbers) + 1 + GAP
    size, kind = labels.get(text.stem, (np.nan, ""))
    place = folder.relative_to(root).as_posix() if folder else text.stem
    return Boxes.of(
        dataset="sun",
        video=text.stem,
        frame_index=[start[row.clip] + row.frame for row in rows],
        xywh=[row.xywh for row in rows],
        file=[f"{place}/{row.name}" for row in rows],
        polyp=text.stem,
        size_mm=size,
        histology=kind,
        fps=FPS,
        source=text.relative_to(root).as_posix(),
        line=[row.line for row in rows],
    )


def _boxes(content: str, text: Path, line: int) -> list[_Line]:
    """The polyp boxes of one line; more than one may follow the name."""
    name, *boxes = content.split()[:64] or [""]
    if not name:
        return []
    found = _NAME.fullmatch(inside(name, f"{text}:{line}"))
    if not found or "/" in name:
        raise UserError(f"{text}:{line}: {name[:80]!r} is no name of SUN -> names end in _aN_…_imageNNNN.jpg")
    rows = []
    for box in boxes:
        cells = box.split(",")
        if len(cells) != 5:
            raise UserError(
                f"{text}:{line}: {box[:60]!r} has {counted(len(cells), 'value')} of 5 -> xmin,ymin,xmax,ymax,class"
            )
        xmin, ymin, xmax, ymax, kind = (number(cell, f"{text}:{line}: value") for cell in cells)
        if kind not in (0, 1):
            raise UserError(f"{text}:{line}: class is {cells[4]} -> 0 is a polyp, 1 is none")
        if kind == 0:
            size = (xmin, ymin, xmax - xmin, ymax - ymin)
            rows.append(_Line(found["clip"], int(found["frame"]), name, size, line))
    return rows


def _labels(path: Path, histology: Mapping[str, str]) -> dict[str, tuple[float, str]]:
    """(size, histology) of each case."""
    rows, lines = read_table(path)
    missing = [name for name in ("case_id", "size_mm", "pathology") if rows and name not in rows[0]]
    if missing:
        raise UserError(f"{path}:1: has no column {missing[0]!r} -> its columns are {', '.join(rows[0])}")
    labels: dict[str, tuple[float, str]] = {}
    for row, line in zip(rows, lines, strict=True):
        where = f"{path}:{line}"
        case = f"case{row['case_id'].removeprefix('case')}"
        if case in labels:
            raise UserError(f"{where}: {case} stands here twice -> two polyps with one id? Give each its own")
        labels[case] = (size_mm(row["size_mm"], where), histology_name(row["pathology"], where, histology))
    return labels
