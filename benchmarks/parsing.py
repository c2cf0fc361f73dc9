"""How fast REAL-Colon's XML files are read, beside a plain ElementTree loop and the floor of opening files.

    python -m benchmarks.parsing           # 20,000 files, some seconds
    python -m benchmarks.parsing --full    # 100,000 files

A tree like REAL-Colon's is generated: one XML per frame, boxes in one frame of eight, in runs. Every reading is done in
the same run on warm files, best of two; all must find the same boxes.
"""

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from xml.etree import ElementTree

import defusedxml.ElementTree
import numpy as np

from benchmarks.result import Result, Row
from polyptrace.data.sources import read_realcolon
from polyptrace.data.sources.small_files import names_in, read_small_files

VIDEOS = ("001-001", "002-002", "003-001", "004-001")


def write_tree(root: Path, files: int) -> None:
    """One folder of annotations per video, as in the download."""
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


def element_tree(folder: Path, parse: Callable[[str], ElementTree.ElementTree] = ElementTree.parse) -> int:
    """The plain loop: one tree per file."""
    boxes = 0
    for name in names_in(folder, ".xml"):
        root = parse(f"{folder}/{name}").getroot()
        for element in root.iter("object"):
            corners = element.find("bndbox")
            _ = (
                [float(corners.find(side).text) for side in ("xmin", "ymin", "xmax", "ymax")],
                element.find("unique_id").text,
            )
            boxes += 1
    return boxes


def defused(folder: Path) -> int:
    return element_tree(folder, defusedxml.ElementTree.parse)


def plain_open(folder: Path) -> int:
    """Python's open, read, close, and nothing else."""
    for name in names_in(folder, ".xml"):
        with (folder / name).open("rb") as file:
            file.read()
    return -1


def system_calls(folder: Path) -> int:
    """The floor: open, read and close, and nothing else."""
    for _ in read_small_files(folder, names_in(folder, ".xml")):
        pass
    return -1


def over_folders(read: Callable[[Path], int], root: Path, processes: int) -> int:
    folders = sorted(root.glob("*_annotations"))
    if processes == 1:
        return sum(map(read, folders))
    with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as pool:
        return sum(pool.map(read, folders))


def ours(root: Path, processes: int) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no tables of labels here
        return len(read_realcolon(root, workers=processes))


def best(run: Callable[[], int], repeats: int) -> tuple[float, float, int]:
    """(wall seconds, processor seconds of all processes, boxes) of the best of several runs."""
    times = []
    for _ in range(repeats):
        before, began = sum(os.times()[:4]), time.perf_counter()
        boxes = run()
        times.append((time.perf_counter() - began, sum(os.times()[:4]) - before))
    return min(wall for wall, _ in times), min(cpu for _, cpu in times), boxes


def measure(quick: bool = False, files: int = 0, repeats: int = 2) -> Result:
    """Seconds of every reader, ours beside ElementTree and beside opening files."""
    files = files or (2_000 if quick else 20_000)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_tree(root, files)
        ways = {
            "defusedxml, 1 process": lambda: over_folders(defused, root, 1),
            "ElementTree, 1 process": lambda: over_folders(element_tree, root, 1),
            "ElementTree, 2 processes": lambda: over_folders(element_tree, root, 2),
            "polyptrace, 1 process": lambda: ours(root, 1),
            "polyptrace, 2 processes": lambda: ours(root, 2),
            "open() and read, 1 process": lambda: over_folders(plain_open, root, 1),
            "floor: open, read, close, 1 process": lambda: over_folders(system_calls, root, 1),
            "floor: open, read, close, 2 processes": lambda: over_folders(system_calls, root, 2),
        }
        over_folders(system_calls, root, 1)  # warm
        results = {name: best(run, repeats) for name, run in ways.items()}
    found = {boxes for _, _, boxes in results.values() if boxes >= 0}
    assert len(found) == 1, f"readers disagree: {results}"
    rows = [
        Row(
            f"reading XML, {processes}",
            "files per processor second",
            *(
                files / results[f"{way}, {processes}"][1]
                for way in ("polyptrace", "ElementTree", "floor: open, read, close")
            ),
            more_is_better=True,
        )
        for processes in ("1 process", "2 processes")
    ]
    details = [("reader", "s", "processor s", "files/s")]
    for name, (wall, cpu, _) in results.items():
        details.append((name, f"{wall:.2f}", f"{cpu:.2f}", f"{files / wall:,.0f}"))
    whole = 2_757_723 / files * results["polyptrace, 1 process"][1]
    note = (
        f"{files:,} files, {found.pop():,} boxes, warm, best of {repeats}. The limit: open, read and close. "
        f"REAL-Colon's 2.76 million files would take {whole:.0f} processor seconds."
    )
    return Result("parsing", tuple(rows), note, tuple(details))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="100,000 files instead of 20,000")
    parser.add_argument("--repeats", type=int, default=2, help="the best of so many readings counts")
    options = parser.parse_args()
    print(measure(files=100_000 if options.full else 20_000, repeats=options.repeats).text())


if __name__ == "__main__":
    main()
