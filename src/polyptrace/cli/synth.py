"""`polyptrace synth OUT --preset small --seed 0`: generate procedures."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

import typer
from rich.table import Table

from polyptrace.core.console import console, output


def command(
    out: Annotated[Path, typer.Argument(help="Folder to write.")],
    preset: Annotated[Literal["tiny", "small", "full"], typer.Option(help="Scale.")] = "small",
    regime: Annotated[
        Literal["real-colon", "hard"], typer.Option(help="Follow REAL-Colon, or draw a new view for every track.")
    ] = "real-colon",
    seed: Annotated[
        int, typer.Option(min=0, help="The same seed gives the same bytes; dataset and video names contain it.")
    ] = 0,
    tracklets: Annotated[float | None, typer.Option(help="Mean number of tracklets per polyp.")] = None,
    polyps_per_site: Annotated[float | None, typer.Option(help="Mean number of polyps per site, 1 to 4.")] = None,
    view_change: Annotated[
        float | None, typer.Option(help="Variation of viewpoint, light and blur of one polyp, 0 to 1.")
    ] = None,
    view_memory: Annotated[
        float | None,
        typer.Option(help="Frames after which most of the view is new; 0: every track is a new view."),
    ] = None,
    colour_drift: Annotated[
        float | None, typer.Option(help="Share of the colour variation within a procedure, 0 to 1.")
    ] = None,
    narrow_band: Annotated[
        float | None, typer.Option(help="Probability of narrow-band imaging during an inspection.")
    ] = None,
    alike: Annotated[float | None, typer.Option(help="Similarity of the polyps, 0 to 1.")] = None,
    interleave: Annotated[
        float | None,
        typer.Option(help="Probability of turning to another polyp of the site; needs --polyps-per-site above 1."),
    ] = None,
    resight: Annotated[float | None, typer.Option(help="Share of polyps that are seen again much later.")] = None,
    box_jitter: Annotated[
        float | None, typer.Option(help="Standard deviation of the box edges, relative to the box.")
    ] = None,
    box_dropout: Annotated[float | None, typer.Option(help="Share of boxes that the detector misses.")] = None,
    every_frame: Annotated[
        bool,
        typer.Option("--every-frame", help="Render every frame, not only those that tracklets use; a few have no box."),
    ] = False,
    contact_sheet: Annotated[
        bool, typer.Option("--contact-sheet", help="Write sheets/VIDEO.png with some tracks of every polyp.")
    ] = False,
    videos: Annotated[
        bool, typer.Option("--videos", help="Write videos/VIDEO.mp4; frames without an image repeat the last one.")
    ] = False,
    stats: Annotated[bool, typer.Option("--stats", help="Print statistics, compared with REAL-Colon's.")] = False,
    real: Annotated[
        Path | None, typer.Option(help="Folder of real clips (JPEG): print image statistics, compared with theirs.")
    ] = None,
    split: Annotated[
        Literal["all", "train", "test"], typer.Option(help="Generate only the training or the test procedures.")
    ] = "all",
    device: Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="Where to render.")] = "auto",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Overwrite OUT if it exists.")] = False,
) -> None:
    """Generate procedures: images, boxes and labels.

    The seed determines colon, polyps, camera and workflow. Each polyp keeps its identity, size (mm) and histology
    through many tracks. The output is COCO in the layout of the authors' datasets, with separate training and test
    procedures. If OUT was made with the same settings, nothing is rendered again.

    [bold]tiny[/] takes seconds (for tests), [bold]small[/] about a minute on two cores (for the demo), [bold]full[/]
    has the paper's 27 + 19 procedures with 85 + 47 polyps (some minutes on a GPU). Options that are not given take the
    values of the preset and the regime. Each seed is a separate dataset, synthetic-SEED, with videos synth-SEED-001 ...

    Examples:

      polyptrace synth generated --preset small --seed 0

      polyptrace prepare coco generated --split train --out data/train

      polyptrace synth generated --stats --real clips

      polyptrace synth hard --regime hard --alike 0.6 --box-dropout 0.05

      polyptrace synth shared --polyps-per-site 2 --interleave 0.6
    """
    from polyptrace.synthetic import find_preset, generate, with_difficulty  # --help does not wait for torch

    chosen = with_difficulty(
        find_preset(preset, regime),
        tracklets=tracklets,
        polyps_per_site=polyps_per_site,
        view_change=view_change,
        view_memory=view_memory,
        colour_drift=colour_drift,
        narrow_band=narrow_band,
        alike=alike,
        interleave=interleave,
        resight=resight,
        box_jitter=box_jitter,
        box_dropout=box_dropout,
    )
    made = generate(
        out,
        chosen,
        seed,
        split=split,
        device=device,
        every_frame=every_frame,
        contact_sheets=contact_sheet,
        videos=videos,
        overwrite=overwrite,
    )
    console.print(f"{out}: {'written' if made else 'already exists, made with the same settings'}", soft_wrap=True)
    if stats:
        print_box_statistics(out)
    if real is not None:
        print_image_statistics(out, real)


def print_box_statistics(out: Path) -> None:
    """Prints tracks, gaps, sizes, bag purity and the colour baseline of a generated folder."""
    from polyptrace.config import Crops, Embed
    from polyptrace.core.randomness import torch_generator
    from polyptrace.data import Boxes, cut_tracklets, link_tracks, prepare, read_coco
    from polyptrace.embed import embed
    from polyptrace.encoders import ColourGrid
    from polyptrace.evaluate import retrieval
    from polyptrace.supervision import sample_bags, temperature
    from polyptrace.supervision.bags import bag_purity
    from polyptrace.synthetic.statistics import PUBLISHED, box_statistics

    test = read_coco(out, split="test")
    boxes = Boxes.concatenate([read_coco(out, split="train"), test])
    table = Table("10th / 50th / 90th percentile", "here", "REAL-Colon", box=None, header_style="bold")
    for name, value in box_statistics(boxes).items():
        table.add_row(name, value, PUBLISHED[name])
    tracklets = cut_tracklets(boxes, link_tracks(boxes, "polyp"))
    for progress in (0.0, 0.5, 1.0):
        bags = sample_bags(tracklets.video, tracklets.position, 4, temperature(progress), torch_generator(0))
        purity = bag_purity(bags.numpy(), tracklets.polyp)
        members = 1 - purity.wrong.sum() / purity.members.sum()
        text = f"{100 * members:.0f} % of members, {100 * purity.pure.mean():.0f} % of bags"
        table.add_row(f"bag purity at c = {progress:g}", text)
    encoder = ColourGrid()
    with TemporaryDirectory() as folder:
        dataset = prepare(test, out, Path(folder) / "dataset", crops=Crops(size=encoder.preprocess.size))
        vectors = embed(encoder, dataset, ("track",), Embed(device="cpu"))
    table.add_row("colour-grid mAP, test split", f"{100 * retrieval(vectors.vectors, vectors.polyp).map:.1f}")
    output.print(table)


def print_image_statistics(out: Path, real: Path) -> None:
    """Prints simple statistics of generated and real images."""
    import numpy as np

    from polyptrace.data import read_coco
    from polyptrace.synthetic.statistics import MAX_HEIGHT, MEASURES, find_recordings, measure_recording

    height = min(MAX_HEIGHT, int(read_coco(out, split="test").image_height[0]))  # sharpness is compared at one scale
    ours, theirs = (
        np.percentile([measure_recording(files, height) for files in find_recordings(root, most=12)], [10, 50, 90], 0)
        for root in (out / "images", real)
    )  # (3, measures)
    table = Table("10th / 50th / 90th percentile", "generated", "real", "median within", box=None, header_style="bold")
    for measure, one, other in zip(MEASURES, ours.T, theirs.T, strict=True):
        texts = (" / ".join(f"{value:.3g}" for value in values) for values in (one, other))
        table.add_row(measure, *texts, "yes" if other[0] <= one[1] <= other[2] else "[bold]no[/]")
    output.print(table)
