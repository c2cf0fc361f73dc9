"""`polyptrace figures curriculum` and `polyptrace figures bag`: the paper's Figures 2 and 1 for any dataset."""

from pathlib import Path
from typing import Annotated

import numpy as np
from typer import Context, Option

from polyptrace.cli.options import ConfigFile, DatasetFolder, Out, Overwrite, read_settings
from polyptrace.core.console import echo
from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_folder, provenance, refuse_existing, write_json
from polyptrace.data import Dataset
from polyptrace.drawing import Drawing
from polyptrace.encoders import load_encoder
from polyptrace.figures import figure1, figure2

SECTIONS = ("supervision",)

#: The file that marks a folder of figures.
FIGURES_FILE = "figures.json"

EncoderOption = Annotated[str | None, Option("--encoder", help="Run, encoder folder or name, for gradient shares.")]
Seed = Annotated[int, Option("--seed", help="Seed of the sampled bags.")]


def curriculum(
    ctx: Context,
    data: DatasetFolder,
    out: Out,
    points: Annotated[int, Option(min=2, help="Values of c from 0 to 1.")] = 21,
    encoder: EncoderOption = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    config: ConfigFile = None,
) -> None:
    """Figure 2: sampled ranks and the ratio of pure bags along the curriculum.

    Purity needs polyp labels; without them, only the ranks are drawn. With an encoder, the share of the gradient that
    wrong members receive is drawn as well. Settings: [bold]polyptrace settings supervision[/].

    Examples:

      polyptrace figures curriculum --data data/train --out figures

      polyptrace figures curriculum --data data/train --encoder runs/ours --supervision.tau-max 4 --out figures
    """
    settings = read_settings(ctx, config, SECTIONS).supervision
    refuse_existing(out, overwrite, FIGURES_FILE)
    dataset = Dataset.open(data)
    tracklets = figure2.training_tracklets(dataset)
    if encoder is not None:
        tracklets = figure2.add_vectors(tracklets, dataset, load_encoder(encoder))
    statistics = figure2.curriculum_statistics(tracklets, settings, points, seed)
    caption = figure2.curriculum_caption(statistics, data.name)
    _write(out, figure2.curriculum_figures(statistics), caption, overwrite=overwrite)


def bag(
    ctx: Context,
    data: DatasetFolder,
    out: Out,
    video: Annotated[str | None, Option(help="Procedure of the anchor.")] = None,
    frame: Annotated[int | None, Option(help="Frame of the anchor; the nearest tracklet is used.")] = None,
    encoder: EncoderOption = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    config: ConfigFile = None,
) -> None:
    """Figure 1: the bags of one anchor at c = 0 and c = 1, with the timeline of its procedure.

    Each member is shown with its film strip, its time, whether it shows the same polyp (if known) and, with an encoder,
    its share of the gradient. Without --video and --frame, an illustrative anchor is chosen by the seed.

    Examples:

      polyptrace figures bag --data data/train --encoder runs/ours --out figures

      polyptrace figures bag --data data/train --video 001-003 --frame 12000 --encoder runs/ours --out figures
    """
    settings = read_settings(ctx, config, SECTIONS).supervision
    refuse_existing(out, overwrite, FIGURES_FILE)
    dataset = Dataset.open(data)
    tracklets = figure2.training_tracklets(dataset)
    if video is None and frame is None:
        anchor = figure1.illustrative_anchor(tracklets, settings, seed)
    else:
        anchor = _anchor(dataset, tracklets, video, frame)
    if encoder is not None:
        members = [figure1.bag_at(tracklets, settings, anchor, c, seed).members for c in (0.0, 1.0)]
        rows = np.unique(np.concatenate([[anchor], *members]))
        tracklets = figure2.add_vectors(tracklets, dataset, load_encoder(encoder), rows)
    early, late = (figure1.bag_at(tracklets, settings, anchor, c, seed) for c in (0.0, 1.0))
    drawing = figure1.bag_figure(dataset, tracklets, early, late)
    _write(out, [drawing], figure1.bag_caption(dataset, tracklets, early, late), overwrite=overwrite)


def _anchor(dataset: Dataset, tracklets: figure2.TrainingTracklets, video: str | None, frame: int | None) -> int:
    """The tracklet of a procedure nearest to a frame; the first one if only the procedure is given."""
    names = dataset.tracklets.video[tracklets.index]
    videos = list(dict.fromkeys(names.tolist()))
    if video is None and len(videos) > 1:
        raise UserError(f"--frame {frame}: the procedure is not given -> add --video, one of {', '.join(videos[:20])}")
    if video is not None and video not in videos:
        raise UserError(f"--video {video}: not in this dataset -> one of {', '.join(videos[:20])}")
    inside = np.flatnonzero(names == (video or videos[0]))
    return int(inside[np.argmin(np.abs(tracklets.position[inside] - (frame or 0)))])


def _write(out: Path, drawings: list[Drawing], caption: str, *, overwrite: bool) -> None:
    """Writes each drawing as SVG and PNG, and their descriptions to figures.json."""
    with atomic_folder(out, overwrite=overwrite, mark=FIGURES_FILE) as folder:
        for drawing in drawings:
            drawing.save(folder)
        figures = {drawing.name: drawing.description for drawing in drawings}
        write_json(folder / FIGURES_FILE, {"caption": caption, "figures": figures, "made_by": provenance()})
    for drawing in drawings:
        echo(f"{out / drawing.name}.svg: {drawing.description}")


COMMANDS = {"curriculum": curriculum, "bag": bag}
EXAMPLES = "Examples: polyptrace figures curriculum --data data/train --out figures"
