"""`polyptrace encoders`."""

import json
from pathlib import Path
from typing import Annotated, Any

from rich.markup import escape
from rich.table import Column, Table
from typer import Argument, Option

from polyptrace.config import Config
from polyptrace.core.console import echo, output, progress
from polyptrace.encoders import ColourGrid, TrackletEncoder
from polyptrace.encoders.cost import COST_SIZE, encoder_cost, foundation_cost, published_cost
from polyptrace.encoders.encoder import FROZEN
from polyptrace.encoders.foundation import FOUNDATION_MODELS
from polyptrace.encoders.foundation.foundation_encoder import pooling_choices
from polyptrace.encoders.foundation.loading import FoundationModel, cached_weights, find_model
from polyptrace.encoders.weights import DEFAULT

#: What `embed` takes besides foundation models.
OTHERS = (
    f"{DEFAULT} (comes with the package)",
    f"{ColourGrid.name} (colours only)",
    f"{FROZEN}BACKBONE (any timm model)",
    "a run",
    "an encoder folder",
    "OWNER/NAME (hub)",
)

#: Headers of the table of costs; the numbers are right-aligned.
NUMBERS = ("params\nM", "true\nGFLOP", "params M,\npaper's way", "FLOPs G,\npaper's way", "width", "pixels")


def command(
    names: Annotated[list[str] | None, Argument(help="Foundation models; default: all, and ours.")] = None,
    folder: Annotated[Path | None, Option(help="Also look for published weights files in this folder.")] = None,
    as_json: Annotated[bool, Option("--json", help="Print JSON instead of tables.")] = False,
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
        echo(json.dumps(rows, indent=2))
        return
    numbers = (Column(title, justify="right") for title in NUMBERS)
    sources = (Column(title, overflow="fold") for title in ("licence", "weights", "local file"))
    costs = Table(Column("encoder", no_wrap=True), *numbers, "frames", "pooling", box=None, header_style="bold")
    weights = Table(Column("encoder", no_wrap=True), *sources, box=None, header_style="bold")
    for row in rows:
        counts = (row["params"] / 1e6, row["flops"] / 1e9, row["paper_params"] / 1e6, row["paper_macs"] / 1e9)
        sizes = (str(row["width"]), str(row["size"]))
        costs.add_row(row["name"], *(f"{count:,.1f}" for count in counts), *sizes, row["frames"], row["poolings"])
        weights.add_row(row["name"], row["licence"], row["source"], escape(row["local"]))
    output.print(costs, "", weights, sep="\n")
    if not names:
        echo(f"also: {', '.join(OTHERS)}")


def _foundation_row(name: str, model: FoundationModel, folder: Path | None) -> dict[str, Any]:
    architecture, used, paper = model.architecture, foundation_cost(name), published_cost(name)
    known = pooling_choices(architecture.prefix_tokens)
    in_folder = folder / model.file if folder and (folder / model.file).is_file() else None
    marked = [f"{choice} (default)" if choice == model.pooling else choice for choice in known]
    return {
        "name": name,
        "title": model.title,
        "params": used.params,
        "flops": used.flops,
        "paper_params": paper.params,
        "paper_macs": paper.paper_macs,
        "width": architecture.width,
        "size": model.preprocess.size,
        "frames": "single" if architecture.clip_length is None else f"clips of {architecture.clip_length}",
        "poolings": ", ".join(marked),
        "licence": model.licence + (", gated" if model.gated else ""),
        "source": f"--weights hub ({model.hub})" if model.hub else f"{model.file} from {model.page}",
        "local": str(cached_weights(model) or in_folder or "no"),
    }


def _our_row() -> dict[str, Any]:
    encoder = TrackletEncoder(Config().encoder.backbone)
    used = encoder_cost(encoder, COST_SIZE)
    assert used is not None
    return {
        "name": "ours",
        "title": "Ours",
        "params": used.params,
        "flops": used.flops,
        "paper_params": sum(parameter.numel() for parameter in encoder.parameters()),
        "paper_macs": used.paper_macs,
        "width": encoder.width,
        "size": encoder.preprocess.size,
        "frames": "any",
        "poolings": "the learnable token",
        "licence": "Apache-2.0",
        "source": "polyptrace train",
        "local": "run folder",
    }
