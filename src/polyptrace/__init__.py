"""Polyp re-identification learned from unlabelled colonoscopy procedures."""

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polyptrace.embed import OnnxEncoder, from_pretrained, save_pretrained

try:
    __version__ = version("polyptrace")
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = "0+unknown"

__all__ = ["OnnxEncoder", "__version__", "from_pretrained", "save_pretrained"]


def __getattr__(name: str) -> Any:
    """Functions that need torch, which takes seconds to import, are imported when they are used."""
    if name not in ("OnnxEncoder", "from_pretrained", "save_pretrained"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from polyptrace import embed

    return getattr(embed, name)
