"""Embedding from an encoder's name or folder to a saved folder of vectors."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from polyptrace.config import Embed
from polyptrace.core.files import refuse_existing
from polyptrace.data import Dataset
from polyptrace.embed.costs import cost_columns
from polyptrace.embed.embedding import embed
from polyptrace.embed.table import VECTORS_FILE, Embeddings
from polyptrace.encoders import load_encoder


def embed_files(
    encoder: str,
    data: Path,
    out: Path,
    weights: str | None = None,
    settings: Embed | None = None,
    *,
    row: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    compute: Callable[..., Embeddings] = embed,
) -> Embeddings:
    """Embeds a dataset folder with a named encoder and saves the vectors; returns them.

    `row` describes the encoder in a table (name, group, labels). `compute` replaces `embed`, for example by a cluster.
    """
    settings = settings or Embed()
    refuse_existing(out, overwrite, VECTORS_FILE)
    model = load_encoder(encoder, weights, settings.pooling, settings.preprocess)
    embeddings = compute(model, Dataset.open(data), settings=settings)
    about = {"from": encoder, "weights": weights, "method": {**(row or {}), **cost_columns(model)}}
    embeddings = replace(embeddings, info={**embeddings.info, **about})
    embeddings.save(out, overwrite=overwrite)
    return embeddings
