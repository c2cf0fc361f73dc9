"""From a frozen encoder and a dataset to vectors, for tracklets and whole tracks.

embeddings = embed(load_encoder("runs/ours"), Dataset.open("data/test"))
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import nn

from polyptrace.config import Embed
from polyptrace.core.console import progress
from polyptrace.core.errors import UserError
from polyptrace.core.files import provenance
from polyptrace.data import Dataset
from polyptrace.embed.embedder import Embedder
from polyptrace.embed.plan import Ints
from polyptrace.embed.table import COLUMNS, Embeddings
from polyptrace.encoders import weights_hash

UNITS = ("tracklet", "track")


def embed(
    encoder: nn.Module | Embedder,
    dataset: Dataset,
    units: Sequence[str] = UNITS,
    settings: Embed | None = None,
) -> Embeddings:
    """The vectors of all tracklets of the units, in the dataset's order, with their ids and labels.

    For several datasets give an `Embedder`, which is made ready once; it has its own settings.
    """
    embedder = encoder if isinstance(encoder, Embedder) else Embedder(encoder, settings)
    chosen = tracklets_of(dataset, units)
    plan = embedder.plan(dataset, chosen)
    count = embedder.frame_count(dataset, plan)
    with progress(f"embedding on {embedder.device.type}, {embedder.precision}", count, "frames") as bar:
        order, vectors = embedder.vectors(dataset, plan, advance=bar.advance)
    return as_table(dataset, units, order, vectors, embedder.encoder, embedder.precision, embedder.weights_hash)


def tracklets_of(dataset: Dataset, units: Sequence[str]) -> Ints:
    """The tracklets of the units; an error where there are none."""
    chosen = np.flatnonzero(np.isin(dataset.tracklets.unit, list(units)))
    if not len(chosen):
        raise UserError(f"{dataset.path}: has no {' or '.join(units)} -> was it prepared to the end?")
    return chosen


def as_table(
    dataset: Dataset,
    units: Sequence[str],
    tracklets: Ints,
    vectors: NDArray[np.float32],
    encoder: nn.Module,
    precision: str,
    model_hash: str = "",
) -> Embeddings:
    """Vectors (N, D) of tracklets (N,) in any order as a table in the dataset's, with ids, labels and provenance.

    `model_hash` is that of the encoder's weights, where it is known already.
    """
    order = np.argsort(tracklets)
    chosen, vectors = tracklets[order], vectors[order]
    broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(broken):
        row = chosen[broken[0]]
        raise UserError(
            f"{dataset.path}: the vector of tracklet {row} (video {dataset.tracklets.video[row]}) is not finite"
            " -> try --embed.precision float32; if it stays, the encoder itself is broken"
        )
    info = {
        "encoder": str(encoder.name),
        "model_hash": model_hash or weights_hash(encoder),
        "precision": precision,
        "dataset": {"path": str(dataset.path), **{k: dataset.info.get(k, {}) for k in ("source", "hashes")}},
        "units": list(units),
        "made_by": provenance(),
    }
    columns = {name: getattr(dataset.tracklets, name)[chosen] for name in COLUMNS}
    return Embeddings(vectors=vectors, **columns, info=info)
