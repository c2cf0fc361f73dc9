"""`polyptrace detect VIDEO ... --detector X [--out DETECTIONS]`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from polyptrace.config import Config, Tracks, as_options
from polyptrace.core.console import counted, echo, suggest
from polyptrace.core.device import choose_device
from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_file, check_writable
from polyptrace.data.crops.videos import VIDEO_SUFFIXES, is_video, video_info
from polyptrace.detect import Detections, Detector, detect, load_detector
from polyptrace.detect.detector import GENERATED, START_SCORE
from polyptrace.detect.stored_boxes import StoredBoxes

Videos = Annotated[list[Path], Argument(help="Video files: MP4, MOV, MKV, AVI, WMV, MPEG, DICOM, ...")]
DetectorName = Annotated[
    str,
    Option(
        "--detector",
        help="ONNX file, transformers folder, torchvision weights, FILE.py:FUNCTION, or stored boxes as FORMAT:PATH;"
        " for videos of 'polyptrace synth': generated (comes with the package).",
    ),
]
MinScore = Annotated[float, Option(min=0, max=1, help="Drop boxes with a lower score.")]
KeepBorder = Annotated[bool, Option("--keep-border", help="Do not blank the area outside the endoscope's field.")]
BatchSize = Annotated[
    int | None,
    Option("--batch", min=1, help="Frames per call of the detector; by default 16 on a GPU, 2 on a CPU."),
]
DeviceName = Annotated[Literal["auto", "cpu", "cuda"], Option("--device", help="Where the detector runs.")]

#: Linking for a detector's boxes; `python -m benchmarks linking_detections` compares it with trackers, and
#: `python -m benchmarks detector --min-scores` counts lesions with other values of min_score.
LINKING = Tracks(link="video", max_gap=5, start_score=START_SCORE, min_score=0.4, margin=0.2)
PREVIEW_FILE = "preview.html"
#: Why frames are skipped, in words.
SKIPPED = {"black": "black (nothing can be seen)", "frozen": "frozen (nothing changes)"}
#: Frames per batch by type of device. On a CPU, more are not faster, and need memory.
BATCH = {"cuda": 16, "cpu": 2}


def command(
    videos: Videos,
    detector: DetectorName,
    out: Annotated[
        Path | None, Option(help="Folder to write: one MOT file per video. By default the folder of the videos.")
    ] = None,
    min_score: MinScore = 0.1,
    keep_border: KeepBorder = False,
    preview: Annotated[
        bool, Option("--preview", help=f"Only write {PREVIEW_FILE}: 20 frames of each video with their boxes.")
    ] = False,
    batch: BatchSize = None,
    device: DeviceName = "auto",
) -> None:
    """Run a detector over videos.

    Writes OUT/NAME.txt (MOT: one line per box), OUT/NAME.json (summary, skipped frames) and a link to the video, so
    that [bold]polyptrace prepare mot OUT[/] continues from there. Black and frozen frames and those outside the body
    are skipped. The area outside the endoscope's field is blanked first, because patient names may be burnt in there.
    An interrupted run resumes when the same command is run again.

    Examples:

      polyptrace detect procedure.mp4 --detector polyps.onnx --preview

      polyptrace detect procedures/*.mp4 --detector polyps.onnx --out detections

      polyptrace detect procedure.mp4 --detector mine.py:detect --out detections

      polyptrace prepare mot detections --tracks.link video \\
        --tracks.max-gap 5 --tracks.start-score 0.5 --tracks.min-score 0.4 --tracks.margin 0.2 --out data
    """
    border = "keep" if keep_border else "blank"
    out = out or _folder_of(videos)
    if not preview:
        run_detector(videos, detector, out, min_score, border, batch, device)
        suggest("prepare", "mot", out, *as_options(Config(tracks=LINKING), Config()), out="data")
        return
    from polyptrace.detect.preview import preview_page

    detectors = [loaded for _, loaded in _detectors(videos, detector, device)]
    check_writable(out / PREVIEW_FILE)
    page = preview_page(videos, detectors, min_score, border)
    with atomic_file(out / PREVIEW_FILE) as temporary:
        temporary.write_text(page, encoding="utf-8")
    echo(f"written: {out / PREVIEW_FILE}")


def run_detector(
    videos: list[Path], detector: str, out: Path, min_score: float, border: str, batch: int | None, device: str
) -> list[Detections]:
    """Detects in all videos and prints a line about each."""
    detections = []
    batch = batch or BATCH[choose_device(device, "--device")[0].type]
    for video, loaded in _detectors(videos, detector, device):
        made = detect(video, loaded, out, min_score=min_score, border=border, batch=batch)
        echo(f"{made.path}: {summary(made)}")
        detections.append(made)
    return detections


def summary(made: Detections) -> str:
    """The boxes, frames, skipped frames and dropped boxes of a video, in words."""
    skipped = [f"{count:,} {SKIPPED.get(reason, reason)}" for reason, count in made.skipped_frames.items()]
    strong = f" ({made.strong_boxes:,} with a score of {START_SCORE} or more)" if made.boxes else ""
    parts = [f"{counted(made.boxes, 'box', 'boxes')}{strong} in {counted(made.frames, 'frame')}"]
    if skipped:
        parts.append(f"{counted(sum(made.skipped_frames.values()), 'frame')} skipped: {', '.join(skipped)}")
    return "; ".join([*parts, *made.dropped_boxes])


def _folder_of(videos: list[Path]) -> Path:
    """The folder in which all videos are."""
    folder, *others = dict.fromkeys(video.parent for video in videos)
    if others:
        raise UserError(f"the videos are in several folders ({folder}, {others[0]}, ...) -> give --out")
    return folder


def _detectors(videos: list[Path], detector: str, device: str) -> Iterator[tuple[Path, Detector]]:
    """Each video with its detector, which is loaded once unless it is stored boxes."""
    _check_videos(videos, detector)
    chosen = choose_device(device, "--device")[0]
    loaded = None
    for video in videos:
        if loaded is None or isinstance(loaded, StoredBoxes):
            loaded = load_detector(detector, chosen, video, by_name=len(videos) > 1)
        yield video, loaded


def _check_videos(videos: list[Path], detector: str) -> None:
    """Raises an error if a video cannot be read, if two have the same name, or if the detector is not made for one."""
    for video in videos:
        if video.is_dir():
            raise UserError(f"{video}: is a folder -> give its video files, such as {video}/*.mp4")
        if not video.is_file():
            raise UserError(f"{video}: no such video file -> check the path")
        if not is_video(video.name):
            raise UserError(f"{video}: not a known type of video -> convert it to one of {', '.join(VIDEO_SUFFIXES)}")
    names = [video.stem for video in videos]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"{twice[0]}: two videos have this name -> rename one of them, or use two folders")

    for video in videos:
        info = video_info(video)  # a file that is not a video is an error before the detector runs for hours
        if detector == GENERATED and not info.generated:
            raise UserError(
                f"{video}: was not written by 'polyptrace synth', and the detector '{GENERATED}' finds only generated "
                "polyps -> give a detector that was trained on recordings; see docs/video.md"
            )
