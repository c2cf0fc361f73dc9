"""python -m benchmarks detector [DETECTOR GENERATED ...] [--minutes 5] --out FOLDER

How well lesions are counted with a detector's boxes, beside the true boxes, in generated videos: `polyptrace run` is
run on them twice. GENERATED are folders of `polyptrace synth --every-frame --videos`. Without arguments, the detector
`light` of `examples/train_detector.py` is trained first, on other generated procedures. Writes table.md and
detector.json:

- AP50 of the detector's boxes (score of at least 0.1) in the rendered frames;
- for each kind of boxes: the error of the number of lesions of a procedure, the tracks, those of them that never
  overlap a true box (IoU 0.5), and the polyps that no track overlaps.

It ends after --minutes (required to train), also if not all folders are counted; 40 % of them are for the training.
Without --work, everything else that is written is removed at the end. With it, an interrupted benchmark resumes.
"""

import argparse
import importlib.util
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.result import Cells, markdown
from examples.train_detector import average_precision, matches
from polyptrace.core.console import counted
from polyptrace.core.device import usable_cores
from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_file, provenance, read_json, write_json
from polyptrace.data import Boxes, Dataset, read_coco, read_mot
from polyptrace.data.tracks import box_iou

ROOT = Path(__file__).parents[1]
IOU = 0.5
TRUE, FOUND = "true boxes", "detector"
TRAINING_SEEDS, UNSEEN_SEEDS = (160, 161, 162, 163), (171, 172, 173)
TRAINING_SHARE = 0.4  # of the time
TRAINING = ROOT / "examples/train_detector.py"
Run = Callable[..., None]  # runs a Python command; raises TimeoutExpired when the time is over


def main(words: list[str]) -> None:
    """Measures, and writes table.md and detector.json."""
    options = parse(words)
    end = time.monotonic() + 60 * options.minutes
    training: dict[str, Any] = {}
    with TemporaryDirectory() as temporary, ThreadPoolExecutor(1) as background:
        work = options.work or Path(temporary)
        detector, folders = options.detector, options.generated
        if not detector:
            seen, folders = generate(limited(end), work, options.preset)
        cases = {
            kind: {folder: work / f"{kind.split()[0]}-{number}" for number, folder in enumerate(folders)}
            for kind in (TRUE, FOUND)
        }
        true = background.submit(run_all, limited(end), cases[TRUE], "", options.encoder)
        if not detector:
            detector = str(work / "light")
            seconds = TRAINING_SHARE * 60 * options.minutes
            training = train(limited(end), seen, Path(detector), seconds, options)
            write_json(options.out / "training.json", training)
        found = run_all(limited(end), cases[FOUND], detector, options.encoder)
        counted_true = true.result()
        finished = [folder for folder in folders if folder in found and folder in counted_true]
        content = measured({kind: {folder: cases[kind][folder] for folder in finished} for kind in cases})
    content |= {"detector": detector, "training": training, "encoder": options.encoder, "made_by": provenance()}
    content["folders that were not finished"] = [str(folder) for folder in folders if folder not in finished]
    write_json(options.out / "detector.json", content)
    text = page(content)
    with atomic_file(options.out / "table.md") as file:
        file.write_text(text, encoding="utf-8")
    print(text)


def parse(words: list[str]) -> argparse.Namespace:
    """The command line, checked."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks detector", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("detector", nargs="?", help="as in 'polyptrace run'")
    parser.add_argument("generated", nargs="*", type=Path)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--preset", default="small", help="of the procedures that are generated")
    parser.add_argument("--size", type=int, default=256, help="of the detector that is trained, in pixels")
    parser.add_argument("--encoder", default="default", help="as in 'polyptrace run'")
    parser.add_argument("--work", type=Path, help="keep what the commands write in this folder")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(words)
    if importlib.util.find_spec("av") is None:
        raise UserError("videos need PyAV -> pip install 'polyptrace[video]'")
    if options.detector and not options.generated:
        raise UserError(f"{options.detector}: no folders to count in -> give folders of 'polyptrace synth'")
    if not options.detector and options.minutes == math.inf:
        raise UserError("the training has no end -> give --minutes")
    for folder in options.generated:
        if not list((folder / "videos").glob("*.mp4")):
            raise UserError(f"{folder}: has no videos -> generate it with --every-frame --videos")
    return options


def limited(end: float) -> Run:
    """Runs Python commands until a time of `time.monotonic`."""

    def run(*command: object) -> None:
        words = [sys.executable, *map(str, command)]
        subprocess.run(words, check=True, timeout=max(0.1, end - time.monotonic()) if end < math.inf else None)

    return run


def in_parallel(jobs: Iterable[Callable[[], None]]) -> list[bool]:
    """Runs functions, as many at a time as there are cores; whether each ended before the time was over."""

    def run(job: Callable[[], None]) -> bool:
        try:
            job()
        except subprocess.TimeoutExpired:
            return False
        return True

    with ThreadPoolExecutor(usable_cores()) as pool:
        return list(pool.map(run, jobs))


def generate(run: Run, work: Path, preset: str) -> tuple[list[Path], list[Path]]:
    """Generates folders of procedures for the training, and of unseen ones with videos."""
    jobs = [
        partial(run, "-m", "polyptrace", "synth", work / f"seed-{seed}", "--preset", preset, "--seed", seed, *words)
        for seeds, words in ((TRAINING_SEEDS, ()), (UNSEEN_SEEDS, ("--split", "test", "--every-frame", "--videos")))
        for seed in seeds
    ]
    if not all(in_parallel(jobs)):
        raise UserError("the time was over before the procedures were generated -> give more --minutes")
    seen, unseen = ([work / f"seed-{seed}" for seed in seeds] for seeds in (TRAINING_SEEDS, UNSEEN_SEEDS))
    return seen, unseen


def train(run: Run, folders: list[Path], out: Path, seconds: float, options: argparse.Namespace) -> dict[str, Any]:
    """Trains a detector; returns what is written about the training, with its AP50 on test procedures."""
    if not out.is_dir():
        words = ("--model", "light", "--size", options.size, "--batch", 64, "--seconds", seconds, "--out", out)
        run(TRAINING, "coco", *folders, *words)
    content: dict[str, Any] = read_json(out / "training.json")
    return content


def run_all(run: Run, cases: dict[Path, Path], detector: str, encoder: str) -> list[Path]:
    """`polyptrace run` on the videos of each folder, by default with the true boxes; returns the finished folders."""
    command = ("-m", "polyptrace")
    options = {folder: ("--detector", detector or f"coco:{folder}") for folder in cases}
    videos = {folder: sorted((folder / "videos").glob("*.mp4")) for folder in cases}
    in_parallel(
        partial(run, *command, "detect", video, *options[folder], "--batch", 32, "--out", case / "detections")
        for folder, case in cases.items()
        for video in videos[folder]
    )
    finished = in_parallel(
        partial(run, *command, "run", *videos[folder], *options[folder], "--encoder", encoder, "--out", case)
        for folder, case in cases.items()
    )
    return [folder for folder, done in zip(cases, finished, strict=True) if done]


def measured(cases: dict[str, dict[Path, Path]]) -> dict[str, Any]:
    """Counts in all procedures, and AP50 of the detector."""
    hits: list[tuple[float, bool]] = []
    procedures: list[dict[str, Any]] = []
    boxes = 0
    for generated, found in cases[FOUND].items():
        truth = read_coco(generated).in_order()
        for video in sorted(set(truth.video)):
            mine = truth.take(truth.video == video)
            made = {kind: counts(cases[kind][generated], video, mine) for kind in cases}
            procedures.append({"video": video, "polyps": len(set(mine.polyp)), **made})
            hits += frame_matches(found / "detections" / f"{video}.txt", mine, generated)
            boxes += len(mine)
    if not procedures:
        return {"procedures": []}
    summaries = {kind: summary(procedures, kind) for kind in cases}
    return {"ap50": average_precision(hits, boxes), "boxes": boxes, "summary": summaries, "procedures": procedures}


def counts(case: Path, video: str, truth: Boxes) -> dict[str, int]:
    """Lesions and tracks of a procedure, its tracks that overlap no true box, and the polyps that no track overlaps."""
    if not (case / "data").is_dir():  # not one track in any video
        return {"lesions": 0, "tracks": 0, "false tracks": 0, "missed polyps": len(set(truth.polyp))}
    lesions = {each["video"]: each["lesions"] for each in read_json(case / "lesions/lesions.json")["procedures"]}
    dataset = Dataset.open(case / "data")
    table = dataset.boxes()
    row_of_crop, tracklets = dataset.box_of_crop(), dataset.tracklets
    tracks = np.flatnonzero((tracklets.unit == "track") & (tracklets.video == video))
    polyps = [overlapped(table.take(row_of_crop[tracklets.rows[each]]), truth) for each in tracks]
    return {
        "lesions": lesions.get(video, 0),
        "tracks": len(tracks),
        "false tracks": sum(not each for each in polyps),
        "missed polyps": len(set(truth.polyp).difference(*polyps)),
    }


def overlapped(track: Boxes, truth: Boxes) -> set[str]:
    """The polyps whose true box overlaps that of the track in a frame."""
    polyps: set[str] = set()
    for frame, box in zip(track.frame_index.tolist(), track.xywh, strict=True):
        true = truth.take(np.arange(*np.searchsorted(truth.frame_index, (frame, frame + 1))))
        polyps |= set(true.polyp[box_iou(np.tile(box, (len(true), 1)), true.xywh) >= IOU])
    return polyps


def frame_matches(table: Path, truth: Boxes, generated: Path) -> list[tuple[float, bool]]:
    """The detector's boxes in the rendered frames; other frames of the video repeat one, and have no true box."""
    if not table.stat().st_size:
        return []
    found, video = read_mot(table).in_order(), truth.video[0]
    hits = []
    for frame in np.unique(found.frame_index).tolist():
        if (generated / "images" / f"{video}_{frame:06d}.jpg").is_file():
            rows, true = (slice(*np.searchsorted(each.frame_index, (frame, frame + 1))) for each in (found, truth))
            hits += matches(np.column_stack([found.xywh[rows], found.score[rows]]), truth.xywh[true])
    return hits


def summary(procedures: list[dict[str, Any]], kind: str) -> dict[str, float]:
    """Mean absolute count error, and sums over the procedures."""
    errors = [abs(each[kind]["lesions"] - each["polyps"]) for each in procedures]
    sums = {name: sum(each[kind][name] for each in procedures) for name in procedures[0][kind]}
    return {"count error": float(np.mean(errors)), **sums}


def page(content: dict[str, Any]) -> str:
    """The tables as Markdown."""
    parts = []
    if training := content["training"]:
        parts.append(
            f"Detector trained for {training['steps']:,} steps; AP50 on {training['test images']:,} images of other "
            f"procedures: {training['AP50']:.3f}."
        )
    if late := content["folders that were not finished"]:
        parts.append(f"Folders of videos that were not counted before the time was over: {len(late)}.")
    procedures = content["procedures"]
    if not procedures:
        return "\n\n".join(parts) + "\n"
    polyps = sum(each["polyps"] for each in procedures)
    size = f"{counted(len(procedures), 'generated procedure')} with {counted(polyps, 'polyp')}"
    parts.append(f"{size}, {content['boxes']:,} true boxes; encoder {content['encoder']}. AP50: {content['ap50']:.3f}.")
    names = list(content["summary"][TRUE])
    table: list[Cells] = [("boxes", *names)]
    table += [
        (kind, f"{each['count error']:.2f}", *(f"{each[name]:,}" for name in names[1:]))
        for kind, each in content["summary"].items()
    ]
    each_one: list[Cells] = [("procedure", "polyps", f"lesions, {TRUE}", f"lesions, {FOUND}")]
    each_one += [
        (each["video"], *map(str, (each["polyps"], each[TRUE]["lesions"], each[FOUND]["lesions"])))
        for each in procedures
    ]
    return "\n\n".join([*parts, markdown(table), markdown(each_one)]) + "\n"
