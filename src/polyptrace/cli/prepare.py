"""`polyptrace prepare SOURCE PATH --out DATASET`."""

from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option

from polyptrace.cli.check import print_dataset
from polyptrace.cli.options import Cluster, ConfigFile, read_settings
from polyptrace.cluster import fill_store_on
from polyptrace.core.arrays import Ints
from polyptrace.core.console import counted, notify, suggest
from polyptrace.core.errors import UserError
from polyptrace.data import Boxes, prepare
from polyptrace.data.crops.filling import fill_store
from polyptrace.data.sources import SOURCES
from polyptrace.data.splits import Selection
from polyptrace.embed.partial import ANSWERS_FILE
from polyptrace.explore.labels import label_boxes

SECTIONS = ("tracks", "crops")

#: The input size of the default encoder in pixels: smaller crops are not suggested for it.
DEFAULT_ENCODER_SIZE = 112

reader = partial(Option, rich_help_panel="Options of some sources")
selection = partial(Option, rich_help_panel="Selection of videos")


def command(
    ctx: Context,
    source: Annotated[str, Argument(help=f"Format of PATH: {', '.join(SOURCES)}.")],
    path: Annotated[Path, Argument(help="Folder or file with the boxes; images are below it.")],
    out: Annotated[Path, Option(help="Dataset folder to write.")],
    split: Annotated[str | None, Option(help="Split of the source: train, test, paper-train, ...")] = None,
    min_score: Annotated[float | None, Option(help="Exclude boxes with a lower detector score.")] = None,
    fps: Annotated[float | None, Option(help="Frame rate of videos whose source states none.")] = None,
    skip_bad: Annotated[bool, Option("--skip-bad", help="Exclude bad rows and list them in rejected.csv.")] = False,
    cluster: Cluster = None,
    answers: Annotated[
        Path | None, Option(help="Polyp labels: the journal of 'explore', or its CSV or Label Studio export.")
    ] = None,
    unlinked_differ: Annotated[
        bool, Option("--unlinked-differ", help="With --answers: tracks that no answer links are different polyps.")
    ] = False,
    config: ConfigFile = None,
    identities: Annotated[str | None, reader(help="Meaning of the source's ids: 'track' (default) or 'polyp'.")] = None,
    histology: Annotated[
        list[str] | None, reader(metavar="NAME=KNOWN", help="Map a histology to a known name; repeatable.")
    ] = None,
    first_frame: Annotated[int | None, reader(min=0, help="mot, yolo, cvat: first frame (default 1, 1, 0).")] = None,
    boxes: Annotated[str | None, reader(help="mot: file to read: gt, det or auto.")] = None,
    results: Annotated[Path | None, reader(help="coco: results JSON of a detector, with scores.")] = None,
    image_size: Annotated[
        str | None, reader(metavar="WIDTHxHEIGHT", help="yolo: image size; required without images and videos.")
    ] = None,
    cases: Annotated[Path | None, reader(help="sun: CSV of the cases, instead of the included one.")] = None,
    columns: Annotated[
        list[str] | None, reader(metavar="OURS=THEIRS", help="polypsize: name of a column; repeatable.")
    ] = None,
    videos: Annotated[str | None, selection(metavar="NAME,NAME", help="Only these videos.")] = None,
    share: Annotated[float | None, selection(help="Only a random share (0-1) of the videos.")] = None,
    rest: Annotated[bool, selection("--rest", help="Select the complement of --videos or --share.")] = False,
    join: Annotated[int | None, selection("--join-clips", help="Clips per artificial procedure.")] = None,
    seed: Annotated[int, selection(min=0, help="Seed of --share and --join-clips.")] = 0,
) -> None:
    """Turn images and boxes in a supported format into a dataset folder.

    Links boxes to tracks, cuts tracklets, and stores a small crop of every frame that a tracklet uses, so that training
    never decodes an image. An interrupted run resumes when the same command is run again. An existing folder with the
    same boxes and settings is left unchanged.

    Without polyp ids, link by overlap: [bold]--tracks.link video[/].
    All settings: [bold]polyptrace settings tracks crops[/].

    Examples:

      polyptrace prepare realcolon REAL-Colon --split paper-train --out train

      polyptrace prepare coco rc27 --split train --out train

      polyptrace prepare mot detections --tracks.link video \\
        --tracks.max-gap 5 --tracks.start-score 0.5 --tracks.min-score 0.4 --tracks.margin 0.2 --out mine

      polyptrace prepare mot clips --identities polyp --tracks.stride 2 --out clips

      polyptrace prepare mot clips --identities polyp --share 0.5 \\
        --join-clips 4 --out artificial-train

      polyptrace prepare mot clips --identities polyp --share 0.5 --rest \\
        --join-clips 4 --out artificial-test
    """
    settings = read_settings(ctx, config, SECTIONS)
    if answers is not None and settings.tracks.link == "polyp":
        raise UserError("--answers: tracks must not be linked by polyp -> add --tracks.link video, or track")
    if answers is not None and answers.is_dir():
        raise UserError(f"--answers {answers}: is a folder -> give the file, for example {answers / ANSWERS_FILE}")
    if unlinked_differ and answers is None:
        raise UserError("--unlinked-differ: needs answers -> add --answers FILE")
    names = tuple(videos.split(",")) if videos else None
    existed = out.exists()
    dataset = prepare(
        source,
        path,
        out,
        settings.tracks,
        settings.crops,
        options={
            "split": split,
            "identities": identities,
            "boxes": boxes,
            "results": results,
            "first_frame": first_frame,
            "image_size": _parse_size(image_size),
            "cases": cases,
            "histology": _parse_pairs(histology, "--histology"),
            "columns": _parse_pairs(columns, "--columns"),
        },
        selection=Selection(min_score, fps, names, share, rest, join, seed),
        skip_bad=skip_bad,
        fill=partial(fill_store_on, cluster) if cluster else fill_store,
        relabel=partial(_relabel, answers, unlinked_differ) if answers else None,
    )
    print_dataset(dataset)
    if existed:
        notify(f"{out}: already exists, made from the same boxes with the same settings")
    if settings.crops.size >= DEFAULT_ENCODER_SIZE:
        suggest("embed", "default", "--data", out, out="vectors")


def _relabel(answers: Path, unlinked_differ: bool, boxes: Boxes, track: Ints) -> Boxes:
    """The boxes with the polyps that the answers name."""
    labelled = label_boxes(boxes, track, answers, unlinked_differ=unlinked_differ)
    open_pairs = [f"{video} ({counted(pairs, 'pair')})" for video, pairs in labelled.unsettled.items()]
    decide = "continue in 'polyptrace explore' until all pairs are decided"
    if_pairs = f"{decide}, or add --unlinked-differ if tracks that no answer links are different polyps"
    if_suggested = f"{decide} and export again, or add --unlinked-differ if all lesions of the file are right"
    if open_pairs and not labelled.tracks:
        raise UserError(f"{answers}: undecided pairs in every procedure: {', '.join(open_pairs)} -> {if_pairs}")
    if labelled.suggested and not labelled.tracks:
        raise UserError(f"{answers}: all lesions are suggestions that no answers decide about -> {if_suggested}")
    if not labelled.tracks:
        raise UserError(f"{answers}: names no track of these boxes -> give the answers of these procedures")
    matches = f"{counted(labelled.tracks, 'track')} of {counted(labelled.polyps, 'polyp')}"
    remark = "; tracks that no answer links count as different polyps" if unlinked_differ else ""
    notify(f"{answers}: labels {matches}{remark}")
    if open_pairs:
        without = f"{counted(len(open_pairs), 'procedure')} with undecided pairs not labelled: {', '.join(open_pairs)}"
        notify(f"{answers}: {without} -> {if_pairs}")
    if labelled.suggested:
        without = f"{counted(labelled.suggested, 'track')} not labelled: no answers decide about their lesions"
        notify(f"{answers}: {without} -> {if_suggested}")
    for each in labelled.unused:
        notify(f"  not used: {each}")
    return labelled.boxes


def _parse_pairs(words: list[str] | None, option: str) -> dict[str, str] | None:
    """NAME=VALUE words as a mapping; None if there are none."""
    for word in words or []:
        if "=" not in word:
            raise UserError(f"{option} {word}: not NAME=VALUE -> write {option} '{word}=...'")
    return dict(word.split("=", 1) for word in words) if words else None


def _parse_size(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    width, _, height = text.partition("x")
    if not (width.isdecimal() and height.isdecimal()):
        raise UserError(f"--image-size {text}: not a size -> write WIDTHxHEIGHT, for example 1350x1080")
    return int(width), int(height)
