"""From a frozen encoder and a dataset to vectors."""

from typing import TYPE_CHECKING

from polyptrace.core import lazy_names

if TYPE_CHECKING:
    from polyptrace.embed.embedding import Embedder, embed, embed_files
    from polyptrace.embed.export import export_encoder
    from polyptrace.embed.online import OnlineEncoder, OnlineTrack
    from polyptrace.embed.onnx import OnnxEncoder, OnnxTrack, embed_export
    from polyptrace.embed.partial import ANSWERS_FILE, VECTORS_FILE
    from polyptrace.embed.pretrained import PretrainedEncoder, from_pretrained, save_pretrained
    from polyptrace.embed.table import Embeddings, concatenate, open_datasets

__all__ = [
    "ANSWERS_FILE",
    "VECTORS_FILE",
    "Embedder",
    "Embeddings",
    "OnlineEncoder",
    "OnlineTrack",
    "OnnxEncoder",
    "OnnxTrack",
    "PretrainedEncoder",
    "concatenate",
    "embed",
    "embed_export",
    "embed_files",
    "export_encoder",
    "from_pretrained",
    "open_datasets",
    "save_pretrained",
]

# `onnx` and `partial` need neither torch nor pyarrow, `table` does not need torch.
__getattr__ = lazy_names(__name__, "onnx", "partial", "table", "embedding", "online", "pretrained", "export")
