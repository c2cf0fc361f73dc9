"""PolypsSet: `{val,test}2019/{Image,Annotation}/N/` with VOC XML; `name` is the histology, one polyp per folder.

`train2019` is flat, without any video identity, and is not used. Frames are sampled, not consecutive: a frame's index
is its place in its folder, so that linking joins neighbouring frames, whatever time lies between them.
"""

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from polyptrace.core.console import counted
from polyptrace.core.errors import UserError
from polyptrace.data.boxes import Boxes
from polyptrace.data.sources.labels import histology_name
from polyptrace.data.sources.names import PICTURES, natural, unwrapped
from polyptrace.data.sources.small_files import names_in, read_small_files
from polyptrace.data.sources.voc import parse_voc, picture_of

_PARTS = ("val2019", "test2019")


def read_polypsset(path: Path, *, split: str | None = None, histology: Mapping[str, str] | None = None) -> Boxes:
    """The boxes of PolypsSet's 39 videos; `split` is `val2019` or `test2019` (without it: both)."""
    path = Path(path)
    if split and split.removesuffix("2019") not in ("val", "test"):
        raise UserError(f"--split {split}: no split with videos -> val2019 or test2019 (train2019 has no identities)")
    parts = (f"{split.removesuffix('2019')}2019",) if split else _PARTS
    base = unwrapped(path, "PolypsSet")
    folders = [folder for part in parts for folder in _video_folders(base / part / "Annotation")]
    if not folders:
        raise UserError(f"{path}: no {' or '.join(f'{part}/Annotation/N' for part in parts)} in it -> give PolypsSet")
    table = Boxes.concatenate([_read_video(folder, path, histology or {}) for folder in folders])
    if not len(table):
        raise UserError(f"{path}: no annotation holds a box -> is the dataset complete?")
    return table


def _video_folders(annotation: Path) -> Iterator[Path]:
    if annotation.is_dir():
        yield from sorted((entry for entry in annotation.iterdir() if entry.is_dir()), key=lambda f: natural(f.name))


def _read_video(folder: Path, root: Path, histology: Mapping[str, str]) -> Boxes:
    part = folder.parent.parent
    video = f"{part.name}/{folder.name}"
    inner = part.relative_to(root).as_posix()
    images = part / "Image" / folder.name
    pictures = names_in(images, "") if images.is_dir() else []
    there = {Path(name).stem: name for name in pictures if name.lower().endswith(PICTURES)}
    names = names_in(folder, ".xml")
    stems = sorted({Path(name).stem for name in names} | there.keys(), key=natural)
    place = {stem: index for index, stem in enumerate(stems)}
    lacking = len(stems) - len(names)
    if lacking:
        warnings.warn(
            f"{images}: {counted(lacking, 'picture')} without an XML file: frames without a box", stacklevel=4
        )
    columns: dict[str, list[object]] = {name: [] for name in _COLUMNS}
    for name, content in read_small_files(folder, names):
        frame = parse_voc(content, folder / name)
        for box in frame.boxes:
            where = f"{folder / name}:{box.line}"
            row = (
                place[Path(name).stem],
                box.xywh,
                f"{inner}/Image/{folder.name}/{picture_of(frame, folder / name, there, where)}",
                frame.width,
                frame.height,
                histology_name(box.name, where, histology),
                f"{inner}/Annotation/{folder.name}/{name}",
                box.line,
            )
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
    columns["histology"] = [_one_kind(columns["histology"], folder)] * len(columns["line"])
    return Boxes.of(**columns, dataset="polypsset", video=video, polyp=video)


_COLUMNS = ("frame_index", "xywh", "file", "image_width", "image_height", "histology", "source", "line")


def _one_kind(kinds: list[object], folder: Path) -> str:
    """The histology of a folder's one polyp: the most frequent name, and a word where there are two."""
    counted = Counter(str(kind) for kind in kinds).most_common()
    if len(counted) > 1:
        said = ", ".join(f"{kind or 'none'} {count}" for kind, count in counted)
        warnings.warn(f"{folder}: one polyp with several histologies ({said}); the first is taken", stacklevel=5)
    return counted[0][0] if counted else ""
