"""python -m benchmarks parsing

Speed of reading REAL-Colon's XML files, compared with a plain ElementTree loop and with opening the files alone. The
20,000 files are generated: one XML per frame, boxes in about one frame of eight, in runs. Every reader runs on warm
files, best of two, and must find the same boxes.
"""

import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from benchmarks.result import Result, Row
from polyptrace.data.sources import read_realcolon
from polyptrace.data.sources.file_names import names_in
from polyptrace.data.sources.reading import read_bytes

VIDEOS = ("001-001", "002-002", "003-001", "004-001")
REPEATS = 2


def write_tree(root: Path, files: int) -> None:
    """Writes one folder of annotations per video, as in the download."""
    rng = np.random.default_rng(0)
    for video in VIDEOS:
        folder = root / f"{video}_annotations"
        folder.mkdir()
        lesion, left = 0, 0
        for t in range(files // len(VIDEOS)):
            if left == 0:
                lesion, left = (
                    (int(rng.integers(1, 4)), int(rng.integers(20, 180))) if rng.random() < 0.0014 else (0, 1)
                )
            left -= 1
            (folder / f"{video}_{t}.xml").write_text(document(video, t, lesion, rng))


def document(video: str, t: int, lesion: int, rng: np.random.Generator) -> str:
    """One annotation file as the dataset's tools write it."""
    x, y, w, h = rng.integers(1, 500, 4).tolist()
    box = f"""\t<object>
\t\t<name>lesion</name>
\t\t<unique_id>{video}_{lesion}</unique_id>
\t\t<box_id>1</box_id>
\t\t<pose>Unspecified</pose>
\t\t<truncated>0</truncated>
\t\t<difficult>0</difficult>
\t\t<bndbox>
\t\t\t<xmin>{x}</xmin>
\t\t\t<xmax>{x + w}</xmax>
\t\t\t<ymin>{y}</ymin>
\t\t\t<ymax>{y + h}</ymax>
\t\t</bndbox>
\t</object>
"""
    return f"""<annotation>
\t<folder>{video}_frames</folder>
\t<filename>{video}_{t}.jpg</filename>
\t<source>
\t\t<database>generated</database>
\t</source>
\t<size>
\t\t<width>1240</width>
\t\t<height>1080</height>
\t\t<depth>3</depth>
\t</size>
\t<segmented>0</segmented>
{box if lesion else ""}</annotation>
"""


def element_tree(folder: Path) -> int:
    """Boxes by the plain loop: one tree per file."""
    boxes = 0
    for name in names_in(folder, ".xml"):
        for element in ElementTree.parse(f"{folder}/{name}").getroot().iter("object"):
            corners = element.find("bndbox")
            _ = [float(corners.find(side).text) for side in ("xmin", "ymin", "xmax", "ymax")]
            _ = element.find("unique_id").text
            boxes += 1
    return boxes


def open_only(folder: Path) -> int:
    """The limit: open, read and close each file."""
    for name in names_in(folder, ".xml"):
        read_bytes(folder / name)
    return 0


def over_folders(read: Callable[[Path], int], root: Path) -> int:
    return sum(map(read, sorted(root.glob("*_annotations"))))


def ours(root: Path) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there are no label tables here
        return len(read_realcolon(root))


def best(run: Callable[[], int]) -> tuple[float, float, int]:
    """(wall seconds, processor seconds, boxes) of the best of several runs."""
    times = []
    for _ in range(REPEATS):
        before, began = time.process_time(), time.perf_counter()
        boxes = run()
        times.append((time.perf_counter() - began, time.process_time() - before))
    return min(wall for wall, _ in times), min(cpu for _, cpu in times), boxes


def measure(quick: bool = False) -> Result:
    """Files per second of our reader, of ElementTree and of opening files."""
    files = 2_000 if quick else 20_000
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_tree(root, files)
        over_folders(open_only, root)  # warm up
        results = {"polyptrace": best(partial(ours, root))}
        for reader in (element_tree, open_only):
            results[reader.__name__] = best(partial(over_folders, reader, root))
    boxes = {results[name][2] for name in ("polyptrace", "element_tree")}
    assert len(boxes) == 1, f"readers disagree: {results}"
    row = Row(
        "reading XML",
        "files per processor second",
        *(files / results[name][1] for name in ("polyptrace", "element_tree", "open_only")),
        more_is_better=True,
        plain_name="ElementTree",
        limit_name="opening and reading",
    )
    details = [("reader", "s", "processor s", "files/s")]
    for name, (wall, cpu, _) in results.items():
        details.append((name, f"{wall:.2f}", f"{cpu:.2f}", f"{files / wall:,.0f}"))
    total = 2_757_723 / files * results["polyptrace"][1]
    note = (
        f"{files:,} files, {boxes.pop():,} boxes, warm, best of {REPEATS}, by processor time. "
        f"Limit: open, read and close. REAL-Colon's 2.76 million files would take {total:.0f} processor seconds."
    )
    return Result("parsing", (row,), note, tuple(details))
