"""Pascal VOC: one XML per frame with corner coordinates.

A source is a folder with XML files at any depth. Images are next to them or in a folder with VOC's name for it
(`Annotations` and `JPEGImages`, `Image`, `images`). The video of a frame is its folder, or else the part of its name
before the number; the number is the frame. VOC has no identities: tags such as `track_id`, `polyp_id` and `unique_id`
inside an object are read if they exist.
"""

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from polyptrace.core.console import counted
from polyptrace.core.errors import UserError, warn
from polyptrace.data.boxes import Boxes
from polyptrace.data.sources import file_names
from polyptrace.data.sources.box_labels import BoxRow, label_columns, labelled_boxes
from polyptrace.data.sources.reading import XmlElement, integer, number, read_bytes, read_text, read_xml

_ANNOTATIONS = ("annotations", "annotation", "xml", "xmls", "labels")
_IMAGES = ("JPEGImages", "Images", "images", "Image", "image", "frames", "Frames", "imgs")
_CORNERS = ("xmin", "ymin", "xmax", "ymax")


class VocBox(NamedTuple):
    """One object of a frame."""

    name: str
    columns: BoxRow  # position, line and size of the image
    tags: dict[str, str]  # the object's other tags, by their names in lower case


def parse_voc(content: bytes, path: Path | str) -> tuple[str, list[VocBox]]:
    """The image that an XML file names, and its boxes: x and y are xmin and ymin as written, width is xmax - xmin."""
    if _has_no_object(content):
        return "", []
    frame = read_xml(content, path, "annotation", "give VOC XML files")
    size = frame.texts_below("size")
    image = {f"image_{side}": integer(size.get(side) or 0, f"{path}: size/{side}") for side in ("width", "height")}
    boxes = []
    for element in frame.children:
        if element.tag == "object":
            tags = {child.tag.lower(): child.text for child in element.children if child.tag != "bndbox"}
            columns = image | {"xywh": _box(element, f"{path}:{element.line}"), "line": element.line}
            boxes.append(VocBox(tags.pop("name", ""), columns, tags))
    return frame.child_texts().get("filename", ""), boxes


def _has_no_object(content: bytes) -> bool:
    """Whether a file is clearly a frame without a box, as most of a procedure's are: it need not be parsed."""
    return b"<object" not in content and b"!" not in content and content.rstrip().endswith(b"</annotation>")


def _box(element: XmlElement, where: str) -> tuple[float, float, float, float]:
    corners = element.texts_below("bndbox")
    missing = [name for name in _CORNERS if not corners.get(name)]
    if missing:
        raise UserError(f"{where}: object has no bndbox/{missing[0]} -> correct or remove the object")
    xmin, ymin, xmax, ymax = (number(corners[name], f"{where}: {name}") for name in _CORNERS)
    return xmin, ymin, xmax - xmin, ymax - ymin


def read_voc(path: Path, *, split: str | None = None, histology: Mapping[str, str] | None = None) -> Boxes:
    """The boxes of a folder of VOC files; `split` is `ImageSets/Main/SPLIT.txt` or a folder of `path`."""
    path = Path(path)
    root = file_names.image_root(path)
    listed = _listed(path, split) if path.is_dir() else None
    start = file_names.split_folder(path, split) if listed is None else path
    rows: list[BoxRow] = []
    unlabelled = 0
    for folder, names in file_names.files_by_folder(start, ".xml").items():
        images = picture_folder(folder, root)
        pictures = file_names.pictures_by_stem(root / images)
        unlabelled += len(pictures.keys() - {Path(name).stem for name in names})
        mixed = file_names.of_several_videos(names)
        prefix = file_names.prefix_of(folder, root)
        for name in names:
            xml = folder / name
            if listed is not None and xml.stem not in listed:
                continue
            filename, boxes = parse_voc(read_bytes(xml), xml)
            if not boxes:
                continue
            video, index = file_names.video_and_frame(
                _without_annotations(prefix + name), root.resolve().name, str(xml), mixed
            )
            columns = {
                "video": video,
                "frame_index": index,
                "file": str(PurePosixPath(images) / picture_of(filename, xml, pictures)),
                "source": prefix + name,
            }
            for box in boxes:
                labels = label_columns(box.tags, video, f"{xml}:{box.columns['line']}", histology or {})
                rows.append(columns | labels | box.columns)
    warn_of_unlabelled(path, unlabelled)
    return labelled_boxes(rows, f"{start}: no XML file contains a box -> give a folder of VOC files")


def warn_of_unlabelled(folder: Path, count: int) -> None:
    """Warns of images without an annotation."""
    if count:
        warn(f"{folder}: {counted(count, 'image')} without an XML file, read as frames without a box")


def _listed(path: Path, split: str | None) -> set[str] | None:
    """The frames in VOC's list of a split, if it has one."""
    if not split:
        return None
    lists = sorted(path.glob(f"**/ImageSets/*/{PurePosixPath(file_names.inside(split, '--split')).name}.txt"))
    return {line.split()[0] for line in read_text(lists[0]).splitlines() if line.split()} if lists else None


def picture_folder(folder: Path, root: Path) -> str:
    """Where the images of an annotation folder are, relative to the root."""
    inner = PurePosixPath(file_names.relative(folder, root))
    for depth, part in reversed(list(enumerate(inner.parts))):
        if part.lower() in _ANNOTATIONS:
            options = [PurePosixPath(*inner.parts[:depth], name, *inner.parts[depth + 1 :]) for name in _IMAGES]
            return str(next((option for option in options if (root / option).is_dir()), options[0]))
    return str(next((inner / name for name in _IMAGES if (root / inner / name).is_dir()), inner))


def picture_of(filename: str, xml: Path, pictures: Mapping[str, str]) -> str:
    """The image of a frame: the one with the XML file's stem, or the one that it names."""
    named = PurePosixPath(file_names.inside(filename, str(xml))).name if filename else ""
    if xml.stem in pictures:
        return pictures[xml.stem]
    return named if named.lower().endswith(file_names.PICTURES) else f"{named or xml.stem}.jpg"


def _without_annotations(source: str) -> PurePosixPath:
    """A file name without folders that only say that they contain annotations."""
    *folders, name = PurePosixPath(source).parts
    return PurePosixPath(*(part for part in folders if part.lower() not in _ANNOTATIONS), name)
