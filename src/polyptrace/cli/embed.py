"""`polyptrace embed ENCODER --data DATASET --out EMBEDDINGS`."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Context, Option

from polyptrace.cli.options import Cluster, ConfigFile, DatasetFolder, Overwrite, Weights, read_settings
from polyptrace.config import Embed
from polyptrace.core.console import counted, echo, suggest
from polyptrace.core.errors import UserError
from polyptrace.embed import Embeddings
from polyptrace.embed.onnx import INFO_FILE, OnnxEncoder, check_crop_size, embed_export
from polyptrace.embed.partial import vectors_written
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
