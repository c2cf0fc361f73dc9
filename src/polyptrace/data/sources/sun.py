"""SUN: 100 polyp cases as folders of JPEGs, boxes in `annotation_txt/caseN.txt`.

A line is `NAME xmin,ymin,xmax,ymax,class`, class 0 a polyp, 1 none. A name ends in `_aN_…_imageNNNN.jpg`. Frames are
consecutive only within a sub-clip `aN`, so sub-clips are placed one after another with a gap that no track can cross.
Sizes and histologies are not in the download; `sun_cases.csv` next to this file has them from the dataset's website.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from polyptrace.core.errors import UserError
from polyptrace.data.boxes import Boxes
from polyptrace.data.sources.box_labels import BoxRow, label_table, with_labels
from polyptrace.data.sources.file_names import files_below, folders_below, inside, natural
from polyptrace.data.sources.reading import number, read_table, read_text

GAP = 1000  # frames between two sub-clips
FPS = 30.0
_CASE = re.compile(r"case(\d+)", re.ASCII)
_NAME = re.compile(r"(?P<clip>.+)_image(?P<frame>\d{1,9})\.(?:jpg|jpeg|png)", re.ASCII | re.IGNORECASE)


def read_sun(path: Path, *, cases: Path | None = None, histology: Mapping[str, str] | None = None) -> Boxes:
    """The boxes of SUN's polyp cases below `path`, unpacked as downloaded; video and polyp are both the case.

    `cases` replaces the table of sizes and histologies (columns case_id, size_mm, pathology).
    """
    path = Path(path)
    texts = {
        file.stem: file
        for file in files_below(path, ".txt")
        if file.parent.name == "annotation_txt" and _CASE.fullmatch(file.stem)
    }
    if not texts:
        raise UserError(f"{path}: no annotation_txt/caseN.txt below it -> unpack sundatabase_positive_part1 there")
    case_folders = {
        folder.name: folder
        for folder in folders_below(path)
        if _CASE.fullmatch(folder.name) and "negative" not in folder.relative_to(path).as_posix().lower()
    }
    label_rows = read_table(cases or Path(__file__).with_name("sun_cases.csv"), ("case_id", "size_mm", "pathology"))
    labels = label_table(label_rows, _case_of_row, "size_mm", "pathology", histology or {})
    cases_in_order = sorted(texts, key=natural)
    rows = [row for case in cases_in_order for row in _read_case(texts[case], path, case_folders.get(case))]
    if not rows:
        raise UserError(f"{path}: no line of annotation_txt has class 0 (polyp) -> are these the positive cases?")
    return with_labels(Boxes.of_rows(rows), labels)


def _case_of_row(row: Mapping[str, str]) -> str:
    return f"case{row['case_id'].removeprefix('case')}"


def _read_case(text: Path, root: Path, folder: Path | None) -> list[BoxRow]:
    boxes = [box for line, content in enumerate(read_text(text).split("\n"), 1) for box in _boxes(content, text, line)]
    start: dict[str, int] = {}
    following = 0
    for clip in sorted({clip for clip, _, _ in boxes}, key=natural):
        numbers = [frame for other, frame, _ in boxes if other == clip]
        start[clip] = following - min(numbers)
        following += max(numbers) - min(numbers) + 1 + GAP
    pictures = folder.relative_to(root).as_posix() if folder else text.stem
    source = text.relative_to(root).as_posix()
    case = {"dataset": "sun", "video": text.stem, "polyp": text.stem, "fps": FPS, "source": source}
    return [
        case | box | {"frame_index": start[clip] + frame, "file": f"{pictures}/{box['file']}"}
        for clip, frame, box in boxes
    ]


def _boxes(content: str, text: Path, line: int) -> list[tuple[str, int, BoxRow]]:
    """The sub-clip, its frame, and further columns of each polyp box of one line; several may follow the name."""
    name, *cells = content.split()[:64] or [""]
    if not name:
        return []
    match = _NAME.fullmatch(inside(name, f"{text}:{line}"))
    if not match or "/" in name:
        raise UserError(f"{text}:{line}: {name[:80]!r} is not a name of SUN -> names end in _aN_…_imageNNNN.jpg")
    boxes = []
    for cell in cells:
        values = cell.split(",")
        if len(values) != 5:
            raise UserError(f"{text}:{line}: {cell[:60]!r} is not xmin,ymin,xmax,ymax,class -> correct it")
        xmin, ymin, xmax, ymax, kind = (number(value, f"{text}:{line}: value") for value in values)
        if kind not in (0, 1):
            raise UserError(f"{text}:{line}: class is {values[4]} -> 0 is a polyp, 1 is none")
        if kind == 0:
            xywh = (xmin, ymin, xmax - xmin, ymax - ymin)
            boxes.append((match["clip"], int(match["frame"]), {"file": name, "xywh": xywh, "line": line}))
    return boxes
