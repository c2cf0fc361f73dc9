"""The lesions of a procedure in formats of other programs, and back from those that name tracks.

| kind | file | read again by |
|---|---|---|
| csv | one line per track | `prepare --answers` |
| labelstudio | Label Studio's video annotations | `prepare --answers` |
| mot | a zip with `NAME/gt/gt.txt` and `seqinfo.ini` | `prepare mot --identities polyp` |
| cocovid | COCO-VID JSON | `prepare cocovid --tracks.link track` |
| cvat | CVAT for video 1.1 | `prepare cvat --tracks.link track` |
| html | a page to look at, in one file | |

All of them contain the lesions that are shown. The lesion of a track is decided by answers if they decide all its pairs
with other answered tracks; otherwise it is a suggestion. `decided_by` says so in CSV and COCO-VID, `origin` in Label
Studio, `source` in CVAT, and the name of every file with a suggestion ends in `-unsettled`.
"""

import base64
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import PurePath
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from polyptrace.config import Tracks
from polyptrace.core.arrays import Bools, Ints
from polyptrace.core.errors import UserError
from polyptrace.core.files import csv_text
from polyptrace.core.timecode import has_rate, seconds_text
from polyptrace.data import Boxes, Dataset
from polyptrace.data.tracks import link_with_settings
from polyptrace.explore.identities import Identities
from polyptrace.explore.journal import Item
from polyptrace.explore.strips import ProcedureCrops, read_boxes
from polyptrace.explore.workspace import Grouping

CSV_COLUMNS = (
    *("dataset", "video", "track", "first_frame", "last_frame", "part", "start_s", "end_s", "lesion", "confidence"),
    *("decided_by", "note", "polyp"),
)
#: In the column of lesions: a track that shows none.
NO_LESION = "none"
#: In the column `decided_by`.
ANSWERS, PROBABILITY = "answers", "probability"
#: Label Studio's origin of a region that nobody drew or changed.
SUGGESTED = "prediction"
#: In the name of a file with lesions that are suggestions.
UNSETTLED = "-unsettled"
#: Files of the page and their types.
PROGRAMS = ("timeline.js", "track.js", "review.js", "page.js")
PAGE = {"page.css": "text/css"} | dict.fromkeys(PROGRAMS, "text/javascript")
NOTE = "A read-only copy: one procedure, as it was when the file was written."


@dataclass(frozen=True)
class Named:
    """A procedure with its lesions, ready to be exported."""

    dataset: str
    video: str
    fps: float
    state: Identities
    grouping: Grouping
    polyp: Sequence[str]
    crops: ProcedureCrops

    @property
    def file_name(self) -> str:
        """The procedure's name without characters that file systems do not allow; letters of any language are kept."""
        return re.sub(r"[^\w.-]+", "_", self.video)[:80].strip("._") or "procedure"

    @cached_property
    def decided(self) -> Bools:
        """The items whose lesion is decided by answers; that of others is a suggestion."""
        return self.state.decided()

    def export_name(self, suffix: str) -> str:
        """The name of an exported file."""
        return self.file_name + ("" if self.decided.all() else UNSETTLED) + suffix

    def boxes(self) -> Iterator[tuple[int, Boxes]]:
        """Each item that shows a lesion, with its boxes in temporal order."""
        if self.crops.dataset is None:
            raise UserError("export: needs the boxes -> start explore with --data DATASET")
        boxes, track = track_boxes(self.crops.dataset, self.dataset, self.video, self.crops.rows)
        ends: dict[int, int] = {}
        for number, _, last in self.state.items:
            ends[number] = max(last, ends.get(number, -1))
        for item in np.flatnonzero(self.grouping.lesion >= 0).tolist():
            number, first, last = self.state.items[item]
            own = (track == number) & (boxes.frame_index >= first)
            if last != ends[number]:  # the last crop of a track may be some frames before its last box
                own &= boxes.frame_index <= last
            rows = np.flatnonzero(own)
            if len(rows):
                yield item, boxes.take(rows[np.argsort(boxes.frame_index[rows], kind="stable")])


def track_boxes(dataset: Dataset, name: str, video: str, crops: dict[int, Ints]) -> tuple[Boxes, Ints]:
    """The boxes of a procedure and the track of each, -1 without a track and for tracks too short to have crops."""
    boxes, crop = read_boxes(dataset, name, video)
    linked = link_with_settings(boxes, Tracks(**dataset.info.get("settings", {}).get("tracks", {})))
    owner = {int(row): track for track, rows in crops.items() for row in rows.tolist()}
    known = np.full(int(linked.max(initial=-1)) + 2, -1)  # the last entry is that of -1, of boxes of no track
    for row in np.flatnonzero(crop >= 0).tolist():
        known[linked[row]] = owner.get(int(crop[row]), -1)
    return boxes, known[linked]


def to_csv(named: Named) -> bytes:
    """One line per track."""
    rows: list[Sequence[object]] = [CSV_COLUMNS]
    lesion, names = named.grouping.lesion, named.state.names
    for number, (track, first, last) in enumerate(named.state.items):
        part = names[number].partition(".")[2]  # of a split track
        times = (seconds_text(first, named.fps), seconds_text(last, named.fps))
        confidence = "" if lesion[number] < 0 else f"{named.grouping.confidence[lesion[number]]:.3f}"
        decided = ANSWERS if named.decided[number] else PROBABILITY
        name = NO_LESION if lesion[number] < 0 else lesion[number] + 1
        note = named.state.notes.get(number, "")
        cells = (named.dataset, named.video, track, first, last, part, *times, name, confidence, decided, note)
        rows.append((*cells, named.polyp[int(named.state.track[number])]))
    return csv_text(rows).encode()


def to_mot(named: Named) -> bytes:
    """A zip with the sequence folder; ids are lesions, frames and pixels are counted from 1."""
    lines, size, end, files = [], (0, 0), 0, set[str]()
    for item, boxes in named.boxes():
        files |= {boxes.file[0], boxes.file[-1]}
        size, end = _size(boxes), max(end, int(boxes.frame_index[-1]) + 1)
        for frame, (x, y, w, h) in zip(boxes.frame_index.tolist(), boxes.xywh.tolist(), strict=True):
            lines.append((frame + 1, int(named.grouping.lesion[item]) + 1, x + 1, y + 1, w, h))
    lines.sort()
    text = "".join(f"{frame},{lesion},{x:g},{y:g},{w:g},{h:g},1,1,1\n" for frame, lesion, x, y, w, h in lines)
    rate = f"frameRate={named.fps:g}\n" if has_rate(named.fps) else ""
    folder = PurePath(_video_file(files)).stem or named.file_name  # read again beside the video of this name
    ini = (
        f"[Sequence]\nname={folder}\nimDir=img1\n{rate}seqLength={end}\n"
        f"imWidth={size[0]}\nimHeight={size[1]}\nimExt=.jpg\n"
    )
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{folder}/gt/gt.txt", text)
        archive.writestr(f"{folder}/seqinfo.ini", ini)
    return content.getvalue()


def to_cocovid(named: Named) -> bytes:
    """COCO-VID: `track_id` is the track, `polyp_id` the lesion."""
    images: dict[int, dict[str, object]] = {}
    annotations: list[dict[str, object]] = []
    for item, boxes in named.boxes():
        width, height = _size(boxes)
        for row, frame in enumerate(boxes.frame_index.tolist()):
            image = {"id": frame + 1, "video_id": 1, "frame_id": frame, "width": width, "height": height}
            images.setdefault(frame, image | {"file_name": str(boxes.file[row])})
            box = boxes.xywh[row].tolist()
            labels = {
                "track_id": item + 1,
                "polyp_id": int(named.grouping.lesion[item]) + 1,
                "decided_by": ANSWERS if named.decided[item] else PROBABILITY,
            }
            annotations.append(
                {"id": len(annotations) + 1, "image_id": frame + 1, "category_id": 1, "bbox": box}
                | {"area": box[2] * box[3], "iscrowd": 0}
                | labels
            )
    video = {"id": 1, "name": named.video} | ({"fps": named.fps} if has_rate(named.fps) else {})
    content = {
        "info": {"description": "polyptrace explore"},
        "videos": [video],
        "images": [images[frame] for frame in sorted(images)],
        "annotations": annotations,
        "categories": [{"id": 1, "name": "polyp"}],
    }
    return json.dumps(content, ensure_ascii=False).encode()


def to_cvat(named: Named) -> bytes:
    """CVAT for video 1.1: one track per item, its lesion as the attribute `polyp`."""
    tracks, size, end, files = [], (0, 0), 0, set[str]()
    for item, boxes in named.boxes():
        size, last = _size(boxes), int(boxes.frame_index[-1])
        files |= {boxes.file[0], boxes.file[-1]}
        end = max(end, last + 1)
        lesion = f'<attribute name="polyp">{int(named.grouping.lesion[item]) + 1}</attribute>'
        lines = [
            _cvat_box(frame, xywh, lesion)
            for frame, xywh in zip(boxes.frame_index.tolist(), boxes.xywh.tolist(), strict=True)
        ]
        lines.append(_cvat_box(last + 1, boxes.xywh[-1].tolist(), lesion, outside=1))
        source = "manual" if named.decided[item] else "auto"
        tracks.append(f'  <track id="{item}" label="polyp" source="{source}">\n' + "".join(lines) + "  </track>\n")
    meta = (
        f"<meta><task><name>{escape(named.video)}</name><size>{end}</size><mode>interpolation</mode>"
        f"<original_size><width>{size[0]}</width><height>{size[1]}</height></original_size></task>"
        + (f"<source>{escape(video)}</source>" if (video := _video_file(files)) else "")
        + "</meta>\n"
    )
    head = '<?xml version="1.0" encoding="utf-8"?>\n<annotations>\n  <version>1.1</version>\n  '
    return (head + meta + "".join(tracks) + "</annotations>\n").encode()


def _cvat_box(frame: int, xywh: Sequence[float], attribute: str, outside: int = 0) -> str:
    x, y, w, h = xywh
    corners = {"xtl": x, "ytl": y, "xbr": x + w, "ybr": y + h}
    texts = " ".join(f"{name}={quoteattr(f'{value:.6f}'.rstrip('0').rstrip('.'))}" for name, value in corners.items())
    flags = f'keyframe="1" outside="{outside}" occluded="0" z_order="0"'
    return f'    <box frame="{frame}" {texts} {flags}>{attribute}</box>\n'


def to_labelstudio(named: Named) -> bytes:
    """Label Studio: one region per item, labelled with its lesion."""
    regions, end = [], 0
    for item, boxes in named.boxes():
        percent = 100 * boxes.xywh / np.tile(np.maximum(_size(boxes), 1), 2)
        end = max(end, int(boxes.frame_index[-1]) + 1)
        sequence: list[dict[str, object]] = []
        for frame, sides in zip(boxes.frame_index.tolist(), percent.tolist(), strict=True):
            time = {"time": frame / named.fps} if has_rate(named.fps) else {}
            box = dict(zip(("x", "y", "width", "height"), sides, strict=True))
            sequence.append({"frame": frame + 1, "enabled": True, "rotation": 0} | box | time)
        sequence[-1]["enabled"] = False  # the region ends here
        value = {"sequence": sequence, "labels": [f"Lesion {int(named.grouping.lesion[item]) + 1}"]}
        track, first, last = named.state.items[item]
        regions.append(
            {"id": f"{track}-{first}-{last}", "type": "videorectangle", "from_name": "box", "to_name": "video"}
            | {
                "origin": "manual" if named.decided[item] else SUGGESTED,
                "value": value,
                "meta": {"text": [named.state.notes.get(item, "")]},
            }
        )
    for region in regions:
        region["value"]["framesCount"] = end  # type: ignore[index]
    task = {"data": {"video": named.video, "dataset": named.dataset}, "annotations": [{"result": regions}]}
    return json.dumps([task], ensure_ascii=False).encode()


def page_file(name: str) -> str:
    """A file of the page."""
    return resources.files("polyptrace.explore").joinpath("page", name).read_text(encoding="utf-8")


def to_html(answers: dict[str, Any], items: list[Item], crops: ProcedureCrops) -> bytes:
    """The page in one file that cannot change anything: style, programs, data and the film strips of all tracks."""
    strips = {}
    for item in items:
        picture = crops.strip(item, 8, 96)
        if picture is not None:
            strips["0/" + "/".join(map(str, item))] = "data:image/jpeg;base64," + base64.b64encode(picture).decode()
    data = {"answers": answers, "strips": strips, "note": NOTE}
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    style = page_file("page.css")
    program = '"use strict";\n' + "".join(page_file(name).removeprefix('"use strict";\n') for name in PROGRAMS)
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(program)}'; img-src data:"
    page = page_file("index.html")
    for old, new in (
        (
            '<meta charset="utf-8">',
            f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">',
        ),
        ('<link rel="stylesheet" href="page.css">', f"<style>{style}</style>"),
        (
            "\n".join(f'<script src="{name}" defer></script>' for name in PROGRAMS),
            f'<script type="application/json" id="embedded">{text}</script>\n<script>{program}</script>',
        ),
    ):
        assert page.count(old) == 1, f"the page has no place for {new[:30]}"
        page = page.replace(old, new)
    return page.encode()


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _video_file(files: set[str]) -> str:
    """The name of the video file of all boxes, without its folder; "" if each frame has an image of its own."""
    return PurePath(*files).name if len(files) == 1 else ""


def _size(boxes: Boxes) -> tuple[int, int]:
    return int(boxes.image_width[0]), int(boxes.image_height[0])


@dataclass(frozen=True)
class Format:
    """A format of an export."""

    title: str
    suffix: str
    media: str
    write: Callable[[Named], bytes]


#: Exports of the lesions. The page itself, which needs more, is added by the server.
FORMATS = {
    "csv": Format("Table of tracks (CSV)", ".csv", "text/csv", to_csv),
    "mot": Format("MOT challenge (zip)", "-mot.zip", "application/zip", to_mot),
    "cocovid": Format("COCO-VID (JSON)", "-cocovid.json", "application/json", to_cocovid),
    "cvat": Format("CVAT for video 1.1 (XML)", "-cvat.xml", "application/xml", to_cvat),
    "labelstudio": Format("Label Studio (JSON)", "-labelstudio.json", "application/json", to_labelstudio),
}
