"""`polyptrace encoders`."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.table import Table

from polyptrace.config import Config
from polyptrace.core.console import echo, output, progress
from polyptrace.encoders import TrackletEncoder
from polyptrace.encoders.cost import COST_LENGTH, COST_SIZE, Cost, cost, foundation_cost, published_cost
from polyptrace.encoders.foundation import FOUNDATION_MODELS
from polyptrace.encoders.foundation.catalogue import FoundationModel
from polyptrace.encoders.foundation.encoder import pooling_choices
from polyptrace.encoders.foundation.loading import cached_weights, find_model

OURS = "ours"


@dataclass(frozen=True)
class EncoderRow:
    """One encoder: cost, input, and source of the weights."""

    name: str
    title: str
    params: int
    flops: int
    paper_params: int
    paper_macs: int
    width: int
    size: int
    frames: str
    poolings: str
    licence: str
    source: str
    local: str


def command(
    names: Annotated[list[str] | None, typer.Argument(help="Foundation models; default: all, and ours.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--folder", help="Also look for published weights files in this folder.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """List encoders with parameters, cost, licence and weights.

    Costs are counted on the built models, for one tracklet of 8 frames at 224 pixels: parameters and true operations of
    the parts that contribute to the vector, and both as in the paper's table (operations: multiply-accumulates of
    convolutions and linear layers, without attention; parameters: with unused heads and predictors).

    Examples:

      polyptrace encoders

      polyptrace encoders dinov2-small endofm --folder weights --json
    """
    wanted = {name: find_model(name) for name in names or FOUNDATION_MODELS}
    rows = []
    with progress("counting", len(wanted), "encoders") as bar:
        for name, model in wanted.items():
            rows.append(_foundation_row(name, model, folder))
            bar.advance()
    rows += [] if names else [_our_row()]
    if as_json:
        echo(json.dumps([asdict(row) for row in rows], indent=2))
        return
    output.print(_cost_table(rows))
    output.print()
    output.print(_weights_table(rows))


def _foundation_row(name: str, model: FoundationModel, folder: Path | None) -> EncoderRow:
    architecture, used, paper = model.architecture, foundation_cost(name), published_cost(name)
    known = pooling_choices(architecture.prefix_tokens)
    marked = [f"{choice} (default)" if choice == model.pooling else choice for choice in known]
    return EncoderRow(
        name,
        model.title,
        used.params,
        used.flops,
        paper.params,
        paper.paper_macs,
        architecture.width,
        model.preprocess.size,
        "single" if architecture.clip_length is None else f"clips of {architecture.clip_length}",
        ", ".join(marked),
        model.licence + (", gated" if model.gated else ""),
        f"--weights hub ({model.hub})" if model.hub else f"{model.file} from {model.page}",
        _local(model, folder),
    )


def _local(model: FoundationModel, folder: Path | None) -> str:
    path = cached_weights(model)
    if path is None and folder is not None and (folder / model.file).is_file():
        path = folder / model.file
    return "no" if path is None else str(path)


def _our_row() -> EncoderRow:
    with torch.device("meta"):
        encoder = TrackletEncoder(Config().encoder.backbone).eval()
        frames = torch.empty(1, COST_LENGTH, 3, COST_SIZE, COST_SIZE)
    counted: Cost = cost(encoder, lambda: encoder(frames))
    unused = sum(parameter.numel() for parameter in encoder.projector.parameters())
    return EncoderRow(
        OURS,
        "Ours",
        counted.params - unused,
        counted.flops,
        counted.params,
        counted.paper_macs,
        encoder.width,
        encoder.preprocess.size,
        "any",
        "the learnable token",
        "Apache-2.0",
        "polyptrace train",
        "run folder",
    )


def _cost_table(rows: list[EncoderRow]) -> Table:
    table = Table(box=None, header_style="bold")
    table.add_column("encoder", no_wrap=True)
    for title in ("params\nM", "true\nGFLOP", "paper's\nparams M", "paper's\nFLOPs G", "width", "pixels"):
        table.add_column(title, justify="right")
    table.add_column("frames")
    table.add_column("pooling")
    for row in rows:
        table.add_row(
            row.name,
            f"{row.params / 1e6:,.1f}",
            f"{row.flops / 1e9:,.1f}",
            f"{row.paper_params / 1e6:,.1f}",
            f"{row.paper_macs / 1e9:,.1f}",
            str(row.width),
            str(row.size),
            row.frames,
            row.poolings,
        )
    return table


def _weights_table(rows: list[EncoderRow]) -> Table:
    table = Table(box=None, header_style="bold")
    table.add_column("encoder", no_wrap=True)
    for title in ("licence", "weights", "local file"):
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(row.name, row.licence, row.source, row.local)
    return table
