"""`polyptrace run VIDEO ... --detector X --out CASE`: detect, prepare, embed and lesions, one after the other."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Context, Option

from polyptrace.cli import detect, lesions
from polyptrace.cli.embed import check_encoder, refuse_other_vectors, write_vectors
from polyptrace.cli.options import ConfigFile, SameFile, Weights, read_settings, split_arguments
from polyptrace.config import Config
from polyptrace.core.console import echo
from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_folder, described, refuse_existing, write_csv
from polyptrace.data import prepare
from polyptrace.data.crops.videos import video_info
from polyptrace.data.dataset import DATASET_FILE
from polyptrace.data.preparation import NoTrackError
from polyptrace.data.sources.file_names import names_in
from polyptrace.detect import Detections
from polyptrace.embed.partial import remove_leftovers
from polyptrace.embed.table import Embeddings
from polyptrace.encoders.weights import DEFAULT
from polyptrace.lesions import SAME_FILE, SameModel
from polyptrace.report.lesion_page import LESION_COLUMNS, TRACK_COLUMNS
from polyptrace.report.page import Page, Paragraph, Section, write_page

SECTIONS = ("tracks", "crops", "embed")


def command(
    ctx: Context,
    videos: detect.Videos,
    detector: detect.DetectorName,
    out: Annotated[Path, Option(help="Folder to write: detections, data, vectors, lesions.")],
    encoder: Annotated[str, Option(help="As in 'polyptrace embed': run, encoder folder, name, or hub id.")] = DEFAULT,
    weights: Weights = None,
    same: SameFile = None,
    min_score: detect.MinScore = 0.1,
    keep_border: detect.KeepBorder = False,
    batch: detect.BatchSize = None,
    device: detect.DeviceName = "auto",
    config: ConfigFile = None,
) -> None:
    """From recordings to their lesions, in one command.

    Runs [bold]detect[/], [bold]prepare[/], [bold]embed[/] and [bold]lesions[/], each into a folder of OUT, and ends
    with the page OUT/lesions/lesions.html. If it is interrupted, run the same command again: it resumes. The encoder is
    loaded first, so that a wrong name is an error before the detector runs. Boxes are linked by overlap (--tracks.link
    video, with --tracks.margin 0.2 for camera motion), gaps of 5 frames are bridged, a track starts with a score of
    0.5, and its mean score is at least 0.4.

    All settings: [bold]polyptrace settings tracks crops embed[/].

    Examples:

      polyptrace run procedure.mp4 --detector polyps.onnx --out case

      polyptrace run procedures/*.mp4 --detector polyps.onnx --encoder runs/ours --out many

      polyptrace run procedure.mp4 --detector polyps.onnx --encoder runs/ours --same many/vectors/same.json --out case
    """
    names, options = split_arguments([str(word) for word in videos])
    videos = [Path(name) for name in names]
    settings = read_settings(ctx, config, SECTIONS, Config(tracks=detect.LINKING), options)
    crops = replace(settings.crops, border="keep") if keep_border else settings.crops
    _check_later_stages(out, videos, encoder, weights, same, settings)
    detections = detect.run_detector(videos, detector, out / "detections", min_score, crops.border, batch, device)
    remarks = [f"{made.path.stem}: {text.split(' -> ')[0]}." for made in detections for text in made.warnings]
    if not any(made.boxes for made in detections):
        reason = f"The detector found no {'usable ' if remarks else ''}box."
        _no_lesions(out / "lesions", videos, detections, " ".join([reason, *remarks]))
        return
    try:
        dataset = prepare("mot", out / "detections", out / "data", settings.tracks, crops)
    except NoTrackError as error:
        reason = f"The detector's boxes form no track: {error}.".replace(" -> ", "; ")
        _no_lesions(out / "lesions", videos, detections, reason)
        return
    tracked = set(dataset.tracklets.video)
    remarks += [
        f"{made.path.stem}: {detect.summary(made)}; no track." for made in detections if made.path.stem not in tracked
    ]
    vectors = out / "vectors"
    if vectors.is_dir() and Embeddings.load(vectors).info.get("dataset", {}).get("hashes") == dataset.info["hashes"]:
        remove_leftovers(vectors)
    else:  # vectors of a dataset that the user removed are replaced
        write_vectors(encoder, dataset.path, vectors, weights, settings.embed, overwrite=True)
    lesions.write_lesions(vectors, out / "lesions", [dataset.path], same=same, overwrite=True, remarks=remarks)


def _check_later_stages(
    out: Path, videos: Sequence[Path], encoder: str, weights: str | None, same: Path | None, settings: Config
) -> None:
    """Raises the errors of the later stages that do not depend on the boxes, before the detector runs for hours."""
    if out.is_file():
        raise UserError(f"--out {out}: is a file -> give a folder")
    if content := described(out):
        raise UserError(f"--out {out}: contains {content} -> give another folder")
    _check_same_videos(out, videos)
    refuse_existing(out / "lesions", overwrite=True, mark=lesions.MARK)
    vectors = out / "vectors"
    fingerprint, width = check_encoder(encoder, weights, settings.crops.size, settings.embed)
    if vectors.is_dir():
        advice = f"give another folder, or remove {vectors}"
        refuse_other_vectors(vectors, encoder, weights, fingerprint, settings.embed, advice)
    stored = vectors / SAME_FILE
    used = stored if same is None and stored.is_file() else same
    if used is not None:
        SameModel.load(used).check_encoder(fingerprint, width, str(used))


def _check_same_videos(out: Path, videos: Sequence[Path]) -> None:
    """Raises an error if the folder has boxes of other videos, or data that were made without one of the videos."""
    detections, data = out / "detections", out / "data"
    given, made = {video.stem for video in videos}, {Path(name).stem for name in names_in(detections, ".txt")}
    if others := sorted(made - given):
        raise UserError(
            f"{detections}: contains boxes of {', '.join(others)}, not among the given videos"
            " -> give another folder with --out, or these videos, too"
        )
    if (data / DATASET_FILE).is_file() and (new := sorted(given - made)):
        raise UserError(
            f"{data}: was made without {', '.join(new)} -> give another folder with --out, or remove {data} to make it"
            " again of all given videos"
        )


def _no_lesions(out: Path, videos: list[Path], detections: list[Detections], reason: str) -> None:
    """Writes the tables without rows, and a page that says why."""
    facts = [f"{made.path.stem}: {detect.summary(made)}" for made in detections]
    advice = "Look at some frames with 'polyptrace detect --preview', and check the detector and its scores."
    section = Section("videos", "Videos", tuple(Paragraph(text) for text in (*facts, advice)))
    generated = any(video_info(video).generated for video in videos)
    page = Page("No lesions were found", reason, (section,), generated, brand="polyptrace lesions")
    with atomic_folder(out, overwrite=True, mark=lesions.MARK) as folder:
        write_csv(folder / lesions.MARK, [LESION_COLUMNS])
        write_csv(folder / lesions.TRACKS_FILE, [TRACK_COLUMNS])
        write_page(folder / lesions.PAGE_FILE, page)
    echo(f"no lesions were found: {reason}")
    echo(f"written: {out / lesions.PAGE_FILE}")
