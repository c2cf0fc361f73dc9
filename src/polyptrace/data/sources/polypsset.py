"""PolypsSet: `{val,test}2019/{Image,Annotation}/N/` with VOC XML; `name` is the histology, one polyp per folder.

`train2019` is flat and has no video identity, so it is not read. Frames are sampled from the videos: the frame index is
the position in the folder, so that linking joins neighbouring frames, whatever time lies between them.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from polyptrace.core.errors import UserError, warn
from polyptrace.data.boxes import Boxes
from polyptrace.data.sources.box_labels import BoxRow, histology_name, labelled_boxes
from polyptrace.data.sources.file_names import names_in, natural, pictures_by_stem, unwrapped
from polyptrace.data.sources.reading import read_bytes
from polyptrace.data.sources.voc import parse_voc, picture_of, warn_of_unlabelled

_PARTS = ("val2019", "test2019")


def read_polypsset(path: Path, *, split: str | None = None, histology: Mapping[str, str] | None = None) -> Boxes:
    """The boxes of PolypsSet's 39 videos; `split` is `val2019` or `test2019` (default: both)."""
    path = Path(path)
    if split and split.removesuffix("2019") not in ("val", "test"):
        raise UserError(f"--split {split}: not a split with identities -> val2019 or test2019")
    parts = (f"{split.removesuffix('2019')}2019",) if split else _PARTS
    annotations = [unwrapped(path, "PolypsSet") / part / "Annotation" for part in parts]
    folders = [a / name for a in annotations for name in sorted(names_in(a), key=natural) if (a / name).is_dir()]
    if not folders:
        raise UserError(f"{path}: no {' or '.join(f'{part}/Annotation/N' for part in parts)} -> give PolypsSet")
    rows = [row for folder in folders for row in _read_video(folder, path, histology or {})]
    return labelled_boxes(rows, f"{path}: no annotation contains a box -> is the dataset complete?")


def _read_video(folder: Path, root: Path, histology: Mapping[str, str]) -> list[BoxRow]:
    part = folder.parent.parent
    inner = part.relative_to(root).as_posix()
    video = f"{part.name}/{folder.name}"
    pictures = pictures_by_stem(part / "Image" / folder.name)
    names = names_in(folder, ".xml")
    stems = sorted({Path(name).stem for name in names} | pictures.keys(), key=natural)
    index = {stem: k for k, stem in enumerate(stems)}
    warn_of_unlabelled(part / "Image" / folder.name, len(stems) - len(names))
    rows: list[BoxRow] = []
    for name in names:
        xml = folder / name
        filename, boxes = parse_voc(read_bytes(xml), xml)
        columns = {
            "dataset": "polypsset",
            "video": video,
            "frame_index": index[xml.stem],
            "polyp": video,
            "source": f"{inner}/Annotation/{folder.name}/{name}",
        }
        for box in boxes:
            file = f"{inner}/Image/{folder.name}/{picture_of(filename, xml, pictures)}"
            kind = histology_name(box.name, f"{xml}:{box.columns['line']}", histology)
            rows.append(columns | box.columns | {"file": file, "histology": kind})
    kind = _most_frequent([row["histology"] for row in rows], folder)
    return [row | {"histology": kind} for row in rows]


def _most_frequent(histologies: list[str], folder: Path) -> str:
    """The most frequent histology of a folder's one polyp, with a warning if there are several."""
    counts = Counter(histologies).most_common()
    if len(counts) > 1:
        shown = ", ".join(f"{kind or 'none'} {count}" for kind, count in counts)
        warn(f"{folder}: one polyp with several histologies ({shown}); the first is used")
    return counts[0][0] if counts else ""
