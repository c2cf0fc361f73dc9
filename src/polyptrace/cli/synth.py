"""`polyptrace synth OUT --preset small --seed 0`: generate procedures."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from polyptrace.core.console import notify


def command(
    out: Annotated[Path, Argument(help="Folder to write.")],
    preset: Annotated[Literal["tiny", "small", "full"], Option(help="Size of the generated dataset.")] = "small",
    regime: Annotated[
        Literal["real-colon", "hard"], Option(help="Follow REAL-Colon, or draw a new view for every track.")
    ] = "real-colon",
    seed: Annotated[int, Option(min=0, help="The same seed gives the same bytes; names contain the seed.")] = 0,
    tracklets: Annotated[float | None, Option(help="Mean number of tracklets per polyp.")] = None,
    polyps_per_site: Annotated[float | None, Option(help="Mean number of polyps per site, 1 to 4.")] = None,
    view_change: Annotated[float | None, Option(help="Variation of viewpoint, light and blur, 0 to 1.")] = None,
    view_memory: Annotated[
        float | None, Option(help="Frames in which 63 % of the view changes; 0: each track is new.")
    ] = None,
    colour_drift: Annotated[float | None, Option(help="Share of colour variation within procedures, 0 to 1.")] = None,
    narrow_band: Annotated[float | None, Option(help="Probability of narrow-band imaging in inspections.")] = None,
    alike: Annotated[float | None, Option(help="Similarity of the polyps, 0 to 1.")] = None,
    interleave: Annotated[
        float | None,
        Option(help="Probability of turning to another polyp of the site; needs --polyps-per-site above 1."),
    ] = None,
    resight: Annotated[float | None, Option(help="Share of polyps that are seen again much later.")] = None,
    box_jitter: Annotated[float | None, Option(help="Standard deviation of box edges, as a share of the box.")] = None,
    box_dropout: Annotated[float | None, Option(help="Share of boxes that the detector misses.")] = None,
    every_frame: Annotated[
        bool, Option("--every-frame", help="Render every frame, even if no tracklet uses it.")
    ] = False,
    contact_sheet: Annotated[bool, Option("--contact-sheet", help="Write sheets/VIDEO.png with some tracks.")] = False,
    videos: Annotated[
        bool, Option("--videos", help="Write videos/VIDEO.mp4; frames without an image repeat the last one.")
    ] = False,
    split: Annotated[
        Literal["all", "train", "test"], Option(help="Generate only the training or the test procedures.")
    ] = "all",
    device: Annotated[Literal["auto", "cpu", "cuda"], Option(help="Where to render.")] = "auto",
    overwrite: Annotated[bool, Option("--overwrite", help="Replace OUT if it exists.")] = False,
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
    notify(f"{out}: {'written' if made else 'already exists, made with the same settings'}")
