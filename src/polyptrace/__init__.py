"""Polyp re-identification learned from unlabelled colonoscopy procedures."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("polyptrace")
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = "0+unknown"

__all__ = ["__version__"]
