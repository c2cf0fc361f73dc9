"""From a frozen encoder and a dataset to vectors.

Modules are imported when their names are used, so that exported encoders and tables of vectors do not need torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polyptrace.embed.embedding import Embedder, embed, embed_files
    from polyptrace.embed.export import export_encoder
    from polyptrace.embed.online import OnlineEncoder, OnlineTrack
    from polyptrace.embed.onnx import OnnxEncoder, OnnxTrack, embed_export
    from polyptrace.embed.pretrained import PretrainedEncoder, from_pretrained, save_pretrained
    from polyptrace.embed.table import VECTORS_FILE, Embeddings, concatenate

_MODULES = {
    "embedding": ("Embedder", "embed", "embed_files"),
    "export": ("export_encoder",),
    "online": ("OnlineEncoder", "OnlineTrack"),
    "onnx": ("OnnxEncoder", "OnnxTrack", "embed_export"),
    "pretrained": ("PretrainedEncoder", "from_pretrained", "save_pretrained"),
    "table": ("VECTORS_FILE", "Embeddings", "concatenate"),
}

__all__ = [
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
    "save_pretrained",
]


def __getattr__(name: str) -> Any:
    module = next((module for module, names in _MODULES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
