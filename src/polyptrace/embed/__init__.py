"""From a frozen encoder and a dataset to vectors."""

from polyptrace.embed.embedding import embed
from polyptrace.embed.table import Embeddings, concatenate

__all__ = ["Embeddings", "concatenate", "embed"]
