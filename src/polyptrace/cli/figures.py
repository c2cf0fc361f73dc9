"""`polyptrace figures curriculum` and `polyptrace figures bag`: the paper's Figures 2 and 1 for one's own data."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer

from polyptrace.cli.settings import ConfigFile, resolve
from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_folder, provenance, write_json
from polyptrace.data import Dataset
from polyptrace.embed import Embeddings
from polyptrace.encoders import load_encoder
from polyptrace.report import (
    Drawing,
    Tracklets,
    bag_caption,
    bag_figure,
    bag_of,
    curriculum_caption,
    curriculum_figures,
    projected,
    telling_anchor,
    through_curriculum,
    training_tracklets,
    with_embeddings,
)

SECTIONS = ("supervision",)
SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True}

Data = Annotated[Path, typer.Option("--data", help="Dataset folder, made by 'polyptrace prepare'.")]
Out = Annotated[Path, typer.Option("--out", help="Folder to write.")]
Encoder = Annotated[
    str | None, typer.Option("--encoder", help="Run, encoder folder or known name, for shares of the gradient.")
]
Vectors = Annotated[
    Path | None, typer.Option("--embeddings", help="Instead of --encoder: vectors of the same dataset.")
]
Seed = Annotated[int, typer.Option("--seed", help="The same seed draws the same bags.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the folder if it exists.")]

app = typer.Typer(no_args_is_help=True)


@app.command("curriculum", context_settings=SETTINGS)
def curriculum(
    ctx: typer.Context,
    data: Data,
    out: Out,
    points: Annotated[int, typer.Option("--points", min=2, help="Values of c from 0 to 1.")] = 21,
    encoder: Encoder = None,
    embeddings: Vectors = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    config: ConfigFile = None,
) -> None:
    """Figure 2: sampled ranks and the ratio of pure bags through the curriculum.

    Purity needs polyp labels; without them only the ranks are drawn. With an encoder, or vectors, also the share of the
    gradient that wrong members get. Settings: [bold]polyptrace settings supervision[/].

    Examples:

      polyptrace figures curriculum --data data/train --out figures

      polyptrace figures curriculum --data data/train --encoder runs/ours --supervision.tau_max 4 --out figures
    """
    settings = resolve(ctx, config, SECTIONS).supervision
    dataset = Dataset.open(data)
    tracklets, chosen = training_tracklets(dataset)
    if encoder is not None and embeddings is None:
        tracklets = replace(tracklets, vectors=projected(load_encoder(encoder), dataset, chosen))
    elif embeddings is not None:
        tracklets = _embedded(tracklets, dataset, chosen, embeddings, encoder)
    found = through_curriculum(tracklets, settings, points, seed)
    _write(out, curriculum_figures(found), curriculum_caption(found, data.name), overwrite=overwrite)


@app.command("bag", context_settings=SETTINGS)
def bag(
    ctx: typer.Context,
    data: Data,
    out: Out,
    video: Annotated[str | None, typer.Option("--video", help="Procedure of the anchor.")] = None,
    frame: Annotated[int | None, typer.Option("--frame", help="Frame of the anchor, or near it.")] = None,
    encoder: Encoder = None,
    embeddings: Vectors = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    config: ConfigFile = None,
) -> None:
    """Figure 1: the bags of one anchor at c = 0 and c = 1, on the timeline of its procedure.

    Each member with its film strip, when it was seen, whether it is the same polyp (where that is known) and, with an
    encoder or vectors, its share of the gradient. Without --video and --frame a telling anchor is chosen by the seed.

    Examples:

      polyptrace figures bag --data data/train --encoder runs/ours --out figures

      polyptrace figures bag --data data/train --video 001-003 --frame 12000 --embeddings vectors/ours --out figures
    """
    settings = resolve(ctx, config, SECTIONS).supervision
    dataset = Dataset.open(data)
    tracklets, chosen = training_tracklets(dataset)
    anchor = telling_anchor(tracklets, settings, seed)
    if video is not None or frame is not None:
        anchor = _anchor(dataset, chosen, video, frame)
    if embeddings is not None:
        tracklets = _embedded(tracklets, dataset, chosen, embeddings, encoder)
    early, late = (bag_of(tracklets, settings, anchor, c, seed) for c in (0.0, 1.0))
    if encoder is not None and embeddings is None:
        seen = np.unique(np.concatenate([[anchor], early.members, late.members]))
        some = projected(load_encoder(encoder), dataset, chosen[seen])
        vectors = torch.zeros(len(chosen), some.shape[1])
        vectors[torch.from_numpy(seen)] = some
        tracklets = replace(tracklets, vectors=vectors)
        early, late = (bag_of(tracklets, settings, anchor, c, seed) for c in (0.0, 1.0))
    drawing = bag_figure(dataset, tracklets, chosen, early, late)
    _write(out, [drawing], bag_caption(dataset, chosen, early, late), overwrite=overwrite)


def _embedded(
    tracklets: Tracklets, dataset: Dataset, chosen: np.ndarray, embeddings: Path, encoder: str | None
) -> Tracklets:
    if encoder is not None:
        raise UserError("--encoder and --embeddings: both given -> give one of them")
    return with_embeddings(tracklets, dataset, chosen, Embeddings.load(embeddings))


def _anchor(dataset: Dataset, chosen: np.ndarray, video: str | None, frame: int | None) -> int:
    """The tracklet of a procedure nearest to a frame; the first one if only the procedure is given."""
    table = dataset.tracklets
    videos = list(dict.fromkeys(table.video[chosen].tolist()))
    if video is None and len(videos) > 1:
        raise UserError(f"--frame {frame}: of which procedure? -> add --video, one of {', '.join(videos[:20])}")
    if video is not None and video not in videos:
        raise UserError(f"--video {video}: not in this dataset -> one of {', '.join(videos[:20])}")
    inside = np.flatnonzero(table.video[chosen] == (video or videos[0]))
    return int(inside[np.argmin(np.abs(table.position[chosen[inside]] - (frame or 0)))])


def _write(out: Path, drawings: list[Drawing], caption: str, *, overwrite: bool) -> None:
    """Writes each drawing as SVG and PNG, with what they show in figures.json."""
    with atomic_folder(out, overwrite=overwrite, mark="figures.json") as folder:
        for drawing in drawings:
            (folder / f"{drawing.name}.svg").write_text(drawing.svg, encoding="utf-8")
            (folder / f"{drawing.name}.png").write_bytes(drawing.png)
        said = {"caption": caption, "figures": {d.name: d.words for d in drawings}, "made_by": provenance()}
        write_json(folder / "figures.json", said)
    for drawing in drawings:
        typer.echo(f"{out / drawing.name}.svg: {drawing.words}")
