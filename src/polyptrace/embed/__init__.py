"""From a frozen encoder and a dataset to vectors."""

from typing import TYPE_CHECKING

from polyptrace.core.lazy import lazy_names
from polyptrace.embed.table import VECTORS_FILE, Embeddings, check_same_dataset, concatenate

if TYPE_CHECKING:
    from polyptrace.embed.embedding import Embedder, embed, embed_files
    from polyptrace.embed.online import OnlineEncoder, OnlineTrack
    from polyptrace.embed.pretrained import PretrainedEncoder, from_pretrained, save_pretrained

__all__ = [
    "VECTORS_FILE",
    "Embedder",
    "Embeddings",
    "OnlineEncoder",
    "OnlineTrack",
    "PretrainedEncoder",
    "check_same_dataset",
    "concatenate",
    "embed",
    "embed_files",
    "from_pretrained",
    "save_pretrained",
]

__getattr__ = lazy_names(__name__, "embedding", "online", "pretrained")
