"""`polyptrace embed ENCODER --data DATASET --out EMBEDDINGS`."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Context, Option

from polyptrace.cli.options import Cluster, ConfigFile, DatasetFolder, Overwrite, Weights, read_settings
from polyptrace.config import Embed
from polyptrace.core.console import counted, echo, notify, suggest
from polyptrace.core.errors import UserError
from polyptrace.core.files import differences, refuse_changes
from polyptrace.data import Dataset
from polyptrace.embed import VECTORS_FILE, Embeddings
from polyptrace.embed.onnx import INFO_FILE, OnnxEncoder, check_crop_size, embed_export
from polyptrace.embed.partial import remove_leftovers, vectors_written
from polyptrace.lesions import SAME_FILE

SECTIONS = ("embed",)


def command(
    ctx: Context,
    encoder: Annotated[str, Argument(help="Run, encoder or ONNX folder, checkpoint, name, or hub id.")],
    data: DatasetFolder,
    out: Annotated[Path, Option(help="Embeddings folder to write.")],
    weights: Weights = None,
    overwrite: Overwrite = False,
    cluster: Cluster = None,
    config: ConfigFile = None,
) -> None:
    """Embed a dataset with a frozen encoder.

    Writes one vector per tracklet and one per whole track. Names: [bold]default[/] (comes with the package),
    [bold]colour-grid[/], [bold]frozen:BACKBONE[/] (any timm model, vectors averaged over frames), and the foundation
    models that [bold]polyptrace encoders[/] lists. All settings: [bold]polyptrace settings embed[/]. A folder of ONNX
    graphs ([bold]polyptrace export[/]) runs on the CPU, without torch.

    If it is interrupted, run the same command again: it resumes.

    Examples:

      polyptrace embed runs/ours --data data/test --out vectors/ours

      polyptrace embed default --data data/test --out vectors/default

      polyptrace embed dinov2-small --weights dinov2-small.safetensors --data data/test --out vectors/dinov2

      polyptrace embed frozen:resnet50 --weights resnet50.safetensors --data data/test --out vectors/resnet50
    """
    settings = read_settings(ctx, config, SECTIONS).embed
    if not overwrite and (out / VECTORS_FILE).is_file():
        dataset = Dataset.open(data)
        fingerprint, _ = check_encoder(encoder, weights, dataset.crops.shape[1], settings)
        advice = "give another folder with --out, or replace this one with --overwrite"
        refuse_other_vectors(out, encoder, weights, fingerprint, settings, advice, dataset)
        remove_leftovers(out)
        notify(f"{out}: already exists, made from the same data with the same encoder and settings")
        suggest("lesions", out, "--data", data, out="lesions")
        return
    fitted = (out / SAME_FILE).is_file()
    embeddings = write_vectors(encoder, data, out, weights, settings, overwrite=overwrite, cluster=cluster)
    count, width = embeddings.vectors.shape
    echo(f"{counted(count, 'vector')} of {counted(width, 'number')}: {out}")
    if fitted:
        echo(
            f"removed: {out / SAME_FILE}, which was fitted to the replaced vectors; 'polyptrace lesions' fits it again"
        )
    suggest("lesions", out, "--data", data, out="lesions")


def write_vectors(
    encoder: str,
    data: Path,
    out: Path,
    weights: str | None,
    settings: Embed,
    *,
    overwrite: bool = False,
    cluster: str | None = None,
) -> Embeddings:
    """Embeds a dataset folder with an exported encoder or one of torch, and saves the vectors."""
    if (Path(encoder) / INFO_FILE).is_file():
        _refuse_fixed(encoder, weights, settings, cluster)
        with vectors_written(out, overwrite):
            embeddings = embed_export(OnnxEncoder(encoder), data, enlarge=settings.enlarge, out=out)
            embeddings.save(out, overwrite=overwrite)
        return embeddings
    from polyptrace.cluster import embed_on  # here, because exported encoders run without torch
    from polyptrace.embed import embed, embed_files

    compute = partial(embed_on, cluster) if cluster else embed
    return embed_files(encoder, data, out, weights, settings, row=_row(encoder), overwrite=overwrite, compute=compute)


def check_encoder(encoder: str, weights: str | None, crop_size: int, settings: Embed) -> tuple[str, int]:
    """Fingerprint of an encoder and width of its vectors; an error if crops of this size could not be embedded."""
    if (Path(encoder) / INFO_FILE).is_file():
        _refuse_fixed(encoder, weights, settings)
        info = OnnxEncoder(encoder).info
        check_crop_size(crop_size, info, encoder, enlarge=settings.enlarge)
        return info.fingerprint, info.width
    from polyptrace.core.device import choose_device
    from polyptrace.encoders import load_encoder
    from polyptrace.encoders.preprocess import input_size
    from polyptrace.encoders.weights import fingerprint

    choose_device(settings.device, "--embed.device")
    model = load_encoder(encoder, weights, settings.pooling, settings.preprocess)
    input_size(crop_size, model.preprocess, enlarge=settings.enlarge)
    return fingerprint(model), model.width


def refuse_other_vectors(
    vectors: Path,
    encoder: str,
    weights: str | None,
    fingerprint: str,
    settings: Embed,
    advice: str,
    dataset: Dataset | None = None,
) -> None:
    """Raises an error if the vectors of a folder were made with another encoder, with other settings or of other data.

    Settings that the folder does not record are not compared. An encoder that was moved is the same encoder.
    """
    info = Embeddings.load(vectors).info
    recorded = info.get("settings", {})
    made: dict[str, Any] = {"embed": recorded}
    requested: dict[str, Any] = {"embed": {key: value for key, value in asdict(settings).items() if key in recorded}}
    if info.get("fingerprint") != fingerprint:
        made |= {"encoder": info.get("from"), "weights": info.get("weights"), "fingerprint": info.get("fingerprint")}
        requested |= {"encoder": encoder, "weights": weights, "fingerprint": fingerprint}
    changed = differences(made, requested)
    source = info.get("dataset", {})
    if dataset is not None and source.get("hashes", {}) != dataset.info.get("hashes", {}):
        changed.append(f"data: not the dataset of these vectors ({source.get('path', 'unknown')})")
    refuse_changes(f"{vectors}: already exists, made", changed, advice)


def _refuse_fixed(encoder: str, weights: str | None, settings: Embed, cluster: str | None = None) -> None:
    """Raises an error if an option is given that an exported encoder does not have."""
    fixed = {
        "--weights": weights,
        "--cluster": cluster,
        "--embed.pooling": settings.pooling != "default",
        "--embed.preprocess": settings.preprocess != "own",
    }
    for option in (each for each, given in fixed.items() if given):
        raise UserError(f"{encoder}: an exported encoder takes no {option} -> leave it out")


def _row(encoder: str) -> dict[str, Any]:
    """The row of an encoder in a table, if it is known by name or its folder says how it was trained."""
    from polyptrace.compare.rows import frozen_row, has_known_name

    if not has_known_name(encoder) and not Path(encoder).is_dir():
        return {}
    row = frozen_row(encoder)
    return {"name": row.title, "group": row.group} | ({"labels": row.labels} if row.labels else {})
