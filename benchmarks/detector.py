"""python -m benchmarks detector DETECTOR GENERATED ... --out FOLDER

How well lesions are counted with a detector's boxes, beside the true boxes, in generated videos: `polyptrace run` is
run on them twice. GENERATED are folders of `polyptrace synth --every-frame --videos`. Writes table.md and
detector.json:

- AP50 of the detector's boxes (score of at least 0.1) in the rendered frames;
- for each kind of boxes: the error of the number of lesions of a procedure, the tracks, those of them that never
  overlap a true box (IoU 0.5), and the polyps that no track overlaps.

With --min-scores, the detector's boxes are linked once more for each value of `--tracks.min-score`.

Without --work, everything else that is written is removed at the end. With it, an interrupted benchmark resumes.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks import command_line
from benchmarks.result import Cells, markdown_table
from examples.train_detector import average_precision, matches
from polyptrace.core.arrays import Floats
from polyptrace.core.console import counted
from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_file, provenance, read_json, write_json
from polyptrace.data import Boxes, Dataset, read_coco, read_mot
from polyptrace.data.tracks import box_iou
from polyptrace.evaluate.bootstrap import draw_counts, interval, mean_draws

IOU = 0.5
DRAWS = 2000  # of the bootstrap
TRUE, FOUND = "true boxes", "detector"


def main(words: list[str]) -> None:
    """Measures, and writes table.md and detector.json."""
    options = parse(words)
    with TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        by_score = {f"{FOUND}, min-score {value:g}": value for value in options.min_scores}
        cases: dict[str, dict[Path, Path]] = {kind: {} for kind in (TRUE, FOUND, *by_score)}
        for number, folder in enumerate(options.generated):
            for kind in cases:
                case = cases[kind][folder] = work / f"{kind.replace(',', '').replace(' ', '-')}-{number}"
                existing = f"mot:{cases[FOUND][folder] / 'detections'}" if kind in by_score else options.detector
                detector = f"coco:{folder}" if kind == TRUE else existing
                words = ["--tracks.min-score", str(by_score[kind])] if kind in by_score else []
                run(folder, detector, case, ["--encoder", options.encoder, *words])
        content = measured(cases)
    content |= {"detector": options.detector, "encoder": options.encoder, "made_by": provenance()}
    write_json(options.out / "detector.json", content)
    text = page(content)
    with atomic_file(options.out / "table.md") as file:
        file.write_text(text, encoding="utf-8")
    print(text)


def parse(words: list[str]) -> argparse.Namespace:
    """The command line, checked."""
    parser = command_line.parser("detector", __doc__)
    parser.add_argument("detector", help="as in 'polyptrace run'")
    parser.add_argument("generated", nargs="+", type=Path)
    parser.add_argument("--encoder", default="default", help="as in 'polyptrace run'")
    parser.add_argument("--min-scores", nargs="+", type=float, default=[], metavar="SCORE", help="of a track, 0 to 1")
    parser.add_argument("--work", type=Path, help="keep what the commands write in this folder")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(words)
    for folder in options.generated:
        if not list((folder / "videos").glob("*.mp4")):
            raise UserError(f"{folder}: has no videos -> generate it with --every-frame --videos")
    return options


def run(generated: Path, detector: str, case: Path, words: list[str]) -> None:
    """`polyptrace run` on the videos of a folder, with further options."""
    command = [sys.executable, "-m", "polyptrace", "run", *sorted((generated / "videos").glob("*.mp4"))]
    subprocess.run([*command, "--detector", detector, "--out", case, *words], check=True)


def measured(cases: dict[str, dict[Path, Path]]) -> dict[str, Any]:
    """Counts in all procedures, and AP50 of the detector."""
    hits: list[tuple[float, bool]] = []
    procedures: list[dict[str, Any]] = []
    boxes = 0
    for generated, out in cases[FOUND].items():
        truth = read_coco(generated).in_order()
        for video in sorted(set(truth.video)):
            mine = truth.take(truth.video == video)
            made = {kind: counts(cases[kind][generated], video, mine) for kind in cases}
            procedures.append({"video": video, "polyps": len(set(mine.polyp)), **made})
            hits += frame_matches(out / "detections" / f"{video}.txt", mine, generated)
            boxes += len(mine)
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
    detected, video = read_mot(table).in_order(), truth.video[0]
    hits = []
    for frame in np.unique(detected.frame_index).tolist():
        if (generated / "images" / f"{video}_{frame:06d}.jpg").is_file():
            rows, true = (slice(*np.searchsorted(each.frame_index, (frame, frame + 1))) for each in (detected, truth))
            hits += matches(np.column_stack([detected.xywh[rows], detected.score[rows]]), truth.xywh[true])
    return hits


def summary(procedures: list[dict[str, Any]], kind: str) -> dict[str, float]:
    """Mean absolute count error, and sums over the procedures."""
    sums = {name: sum(each[kind][name] for each in procedures) for name in procedures[0][kind]}
    return {"count error": float(count_errors(procedures, kind).mean()), **sums}


def count_errors(procedures: list[dict[str, Any]], kind: str) -> Floats:
    """By how many lesions the count of each procedure is wrong."""
    return np.array([float(abs(each[kind]["lesions"] - each["polyps"])) for each in procedures])


def with_interval(values: Floats) -> str:
    """The mean of a value of each procedure, with its 95 % interval over procedures."""
    draws = mean_draws(values, np.arange(len(values)), draw_counts(len(values), DRAWS, 0))
    low, high = interval(draws, len(values))
    return f"{values.mean():.2f} [{low:.2f} to {high:.2f}]"


def page(content: dict[str, Any]) -> str:
    """The tables as Markdown."""
    procedures = content["procedures"]
    polyps = sum(each["polyps"] for each in procedures)
    size = f"{counted(len(procedures), 'generated procedure')} with {counted(polyps, 'polyp')}"
    line = f"{size}, {content['boxes']:,} true boxes; encoder {content['encoder']}. AP50: {content['ap50']:.3f}."
    names = list(content["summary"][TRUE])
    table: list[Cells] = [("boxes", *names)]
    table += [
        (kind, with_interval(count_errors(procedures, kind)), *(f"{each[name]:,}" for name in names[1:]))
        for kind, each in content["summary"].items()
    ]
    more = with_interval(count_errors(procedures, FOUND) - count_errors(procedures, TRUE))
    difference = f"Count error with the detector minus that with true boxes: {more}."
    each_one: list[Cells] = [("procedure", "polyps", f"lesions, {TRUE}", f"lesions, {FOUND}")]
    each_one += [
        (each["video"], *map(str, (each["polyps"], each[TRUE]["lesions"], each[FOUND]["lesions"])))
        for each in procedures
    ]
    return "\n\n".join([line, markdown_table(table), difference, markdown_table(each_one)]) + "\n"
