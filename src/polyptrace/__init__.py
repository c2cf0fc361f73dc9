"""Polyp re-identification learned from unlabelled colonoscopy procedures."""

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from polyptrace.core import lazy_names

if TYPE_CHECKING:
    from polyptrace.embed import OnnxEncoder, from_pretrained, save_pretrained

try:
    __version__ = version("polyptrace")
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = "0+unknown"

__all__ = ["OnnxEncoder", "__version__", "from_pretrained", "save_pretrained"]

__getattr__ = lazy_names(__name__, "embed")
