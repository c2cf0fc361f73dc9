"""`polyptrace export ENCODER --to onnx|pt2|folder --out OUT`."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from polyptrace.cli.options import Out, Overwrite
from polyptrace.config import Embed
from polyptrace.core.console import echo
from polyptrace.core.errors import UserError
from polyptrace.core.files import refuse_existing
from polyptrace.data import Dataset
from polyptrace.data.identity import polyp_keys
from polyptrace.embed import OnnxEncoder, embed, embed_export, export_encoder
from polyptrace.embed.onnx import INFO_FILE
from polyptrace.encoders import load_encoder, save_encoder
from polyptrace.encoders.encoder import OwnEncoder
from polyptrace.encoders.encoder_folder import STORED, rounded
from polyptrace.encoders.weights import fingerprint
from polyptrace.evaluate import Results, retrieval
from polyptrace.report.tables import card_results

FORMATS = {"onnx": INFO_FILE, "pt2": INFO_FILE, "folder": "config.json"}


def command(
    encoder: Annotated[str, Argument(help="Run, encoder folder, authors' checkpoint, `default`, or hub id.")],
    to: Annotated[str, Option(help=f"Format: {', '.join(FORMATS)}.")],
    out: Out,
    precision: Annotated[str, Option(help="Weights: float32; onnx and folder: float16; onnx: int8.")] = "float32",
    results: Annotated[Path | None, Option(help="Folder of 'polyptrace evaluate', for the model card.")] = None,
    data: Annotated[
        Path | None, Option(help="onnx: measure the loss in mAP on this dataset, for the model card.")
    ] = None,
    licence: Annotated[str | None, Option(help="Licence of the weights, for the model card, e.g. apache-2.0.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write an encoder for use elsewhere.

    [bold]onnx[/] and [bold]pt2[/]: graphs that take uint8 pixels of any size and give vectors; resizing and
    normalisation are inside. [bold]polyptrace embed OUT[/] and [bold]polyptrace.OnnxEncoder[/] run the ONNX graphs
    without torch. [bold]folder[/]: weights, settings and model card, as the hub expects them.

    Examples:

      polyptrace export runs/ours --to onnx --out exported

      polyptrace export runs/ours --to onnx --precision int8 --data data/test --out exported

      polyptrace export runs/ours --to folder --precision float16 --results results/ours --out my-encoder
    """
    if to not in FORMATS:
        raise UserError(f"--to {to}: not a format -> give {', '.join(FORMATS)}")
    if data is not None and to != "onnx":
        raise UserError(f"--data: measures ONNX graphs -> leave it out for --to {to}")
    refuse_existing(out, overwrite, FORMATS[to])
    model = load_encoder(encoder)
    if not isinstance(model, OwnEncoder):
        raise UserError(f"{encoder}: was not trained here and is not exported -> give a run or an encoder folder")
    record = replace(model.record, licence=licence or model.record.licence)
    if results is not None:
        measured = card_results(Results.load(results), fingerprint(model))
        if precision not in STORED or fingerprint(rounded(model, precision)) != fingerprint(model):
            measured["Weights"] = f"measured before they were stored in {precision}"
        record = replace(record, results=measured)
    if to == "folder":
        save_encoder(model, out, record=record, precision=precision, overwrite=overwrite)
    else:
        measure = partial(_loss, model, data) if data is not None else None
        export_encoder(model, out, to, precision=precision, record=record, measure=measure, overwrite=overwrite)
    echo(f"{to}, {precision}: {out}")


def _loss(model: OwnEncoder, data: Path, folder: Path) -> dict[str, str]:
    """The retrieval mAP of the torch encoder and of its export, over whole tracks."""
    exported = OnnxEncoder(folder)
    tables = {
        "float32, torch": embed(model, Dataset.open(data), ("track",), Embed(device="cpu", enlarge=True)),
        f"{exported.info.precision}, ONNX": embed_export(exported, data, enlarge=True).select("track"),
    }
    values = [f"{100 * retrieval(each.vectors, polyp_keys(each)).map:.2f} ({name})" for name, each in tables.items()]
    echo(f"retrieval mAP on {data.name}: {', '.join(values)}")
    return {f"Retrieval mAP on {data.name}, torch and export": ", ".join(values)}
