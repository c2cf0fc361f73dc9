"""From a frozen encoder and a dataset to vectors."""

from polyptrace.embed.embedding import Embedder, embed, embed_files
from polyptrace.embed.online import OnlineEncoder, OnlineTrack
from polyptrace.embed.pretrained import PretrainedEncoder, from_pretrained, save_pretrained
from polyptrace.embed.table import VECTORS_FILE, Embeddings, concatenate

__all__ = [
    "VECTORS_FILE",
    "Embedder",
    "Embeddings",
    "OnlineEncoder",
    "OnlineTrack",
    "PretrainedEncoder",
    "concatenate",
    "embed",
    "embed_files",
    "from_pretrained",
    "save_pretrained",
]
