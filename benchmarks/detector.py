"""python -m benchmarks detector [DETECTOR GENERATED ...] [--minutes 5] --out FOLDER

How well lesions are counted with a detector's boxes, beside the true boxes, in generated videos: `polyptrace run` is
run on them twice. GENERATED are folders of `polyptrace synth --every-frame --videos`. Without arguments, the detector
`light` of `examples/train_detector.py` is trained first, on other generated procedures. Writes table.md and
detector.json:

- AP50 of the detector's boxes (score of at least 0.1) in the rendered frames;
- for each kind of boxes: the error of the number of lesions of a procedure, the tracks, those of them that never
  overlap a true box (IoU 0.5), and the polyps that no track overlaps.

It ends after --minutes (required to train), also if not all folders are counted; the training ends after 60 % of them.
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
TRAINING_SEEDS, UNSEEN_SEEDS = range(160, 166), (171, 172)
VIDEOS = ("--split", "test", "--every-frame", "--videos")
TRAINED_AFTER = 0.6  # share of the time
START_S = 20.0  # for starting a program, at most
TRAINING = ROOT / "examples/train_detector.py"
Run = Callable[..., bool]  # runs a Python command; False if the time was over first


def main(words: list[str]) -> None:
    """Measures, and writes table.md and detector.json."""
    options = parse(words)
    begin, seconds = time.monotonic(), 60 * options.minutes
    run = limited(begin + seconds)
    training: dict[str, Any] = {}
    with TemporaryDirectory() as temporary, ThreadPoolExecutor(1) as background:
        work = options.work or Path(temporary)
        detector, folders = options.detector, options.generated
        if not detector:
            seen, unseen = ([work / f"seed-{seed}" for seed in seeds] for seeds in (TRAINING_SEEDS, UNSEEN_SEEDS))
            made = in_parallel(partial(generate, run, folder, options.preset) for folder in seen)
            usable = [folder for folder, done in zip(seen, made, strict=True) if done]
            pending = [background.submit(generate, run, folder, options.preset, *VIDEOS) for folder in unseen]
            detector = str(work / "light")
            left = begin + TRAINED_AFTER * seconds - time.monotonic()
            training = train(run, usable, Path(detector), left - START_S, options.size)
            write_json(options.out / "training.json", training)
            made = [job.result() for job in pending]
            folders = [folder for folder, done in zip(unseen, made, strict=True) if done and training["steps"]]
        cases = {
            kind: {folder: work / f"{kind.split()[0]}-{number}" for number, folder in enumerate(folders)}
            for kind in (FOUND, TRUE)
        }
        finished = run_all(run, cases, detector, options.encoder)
        content = measured({kind: {folder: cases[kind][folder] for folder in finished} for kind in (TRUE, FOUND)})
    content |= {"detector": detector, "training": training, "encoder": options.encoder, "made_by": provenance()}
    content["minutes"] = (time.monotonic() - begin) / 60
    content["folders"] = {"finished": len(finished), "all": len(options.generated or UNSEEN_SEEDS)}
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

    def run(*command: object) -> bool:
        words, left = [sys.executable, *map(str, command)], end - time.monotonic()
        try:
            subprocess.run(words, check=True, timeout=None if end == math.inf else max(left, 0.1))
        except subprocess.TimeoutExpired:
            return False
        return True

    return run


def in_parallel(jobs: Iterable[Callable[[], bool]]) -> list[bool]:
    """Runs functions, as many at a time as there are cores."""
    with ThreadPoolExecutor(usable_cores()) as pool:
        return list(pool.map(lambda job: job(), jobs))


def generate(run: Run, folder: Path, preset: str, *words: str) -> bool:
    """Generates procedures; the folder's name ends with their seed."""
    seed = folder.name.rpartition("-")[2]
    return run("-m", "polyptrace", "synth", folder, "--preset", preset, "--seed", seed, *words)


def train(run: Run, folders: list[Path], out: Path, seconds: float, size: int) -> dict[str, Any]:
    """Trains a detector; returns what is written about the training, also of one that was stopped too early."""
    if folders and not out.is_dir():
        words = ("--model", "light", "--size", size, "--batch", 64, "--seconds", max(seconds, 1.0), "--out", out)
        run(TRAINING, "coco", *folders, *words)
    content: dict[str, Any] = read_json(out / "training.json") if out.is_dir() else {"steps": 0}
    return content


def run_all(run: Run, cases: dict[str, dict[Path, Path]], detector: str, encoder: str) -> list[Path]:
    """`polyptrace run` on the videos of each folder, with both kinds of boxes; returns the finished folders."""
    command = ("-m", "polyptrace")
    jobs = [
        (folder, case, ("--detector", f"coco:{folder}" if kind == TRUE else detector))
        for kind, folders in cases.items()
        for folder, case in folders.items()
    ]
    videos = {folder: sorted((folder / "videos").glob("*.mp4")) for folder, _, _ in jobs}
    in_parallel(
        partial(run, *command, "detect", video, *words, "--out", case / "detections")
        for folder, case, words in jobs
        for video in videos[folder]
    )
    done = in_parallel(
        partial(run, *command, "run", *videos[folder], *words, "--encoder", encoder, "--out", case)
        for folder, case, words in jobs
    )
    late = {folder for (folder, _, _), each in zip(jobs, done, strict=True) if not each}
    return [folder for folder in videos if folder not in late]


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
        known = "stopped before its AP50 was measured"
        if "AP50" in training:
            known = f"AP50 on {training['test images']:,} images of other procedures: {training['AP50']:.3f}"
        parts.append(f"Detector trained for {training['steps']:,} steps; {known}.")
    if (folders := content["folders"])["finished"] < folders["all"]:
        parts.append(
            f"{folders['finished']} of {folders['all']} folders of videos were counted before the time was over."
        )
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
