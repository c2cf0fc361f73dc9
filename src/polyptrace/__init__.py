"""polyptrace learns to recognise the same polyp again, from colonoscopy procedures alone."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("polyptrace")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"

__all__ = ["__version__"]
