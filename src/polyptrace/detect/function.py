"""A detector as a Python function: `--detector mine.py:detect`.

def detect(frames):  # a list of uint8 RGB arrays (H, W, 3)
    return [np.array([[x, y, width, height, score], ...]) for frame in frames]
"""

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from polyptrace.core.errors import UserError
from polyptrace.core.files import file_hash
from polyptrace.detect.detector import Found, Frame


class Function:
    """The function `name` of the file `path`."""

    def __init__(self, path: Path, name: str) -> None:
        if not path.is_file():
            raise UserError(f"--detector {path}:{name}: no such file -> check the path")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.path.insert(0, str(path.resolve().parent))  # as when the file is run as a program
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise UserError(
                f"{path}: cannot be imported ({type(error).__name__}: {error}) -> check that 'python {path}' works"
            ) from error
        finally:
            sys.path.pop(0)
        self._function = getattr(module, name, None)
        if not callable(self._function):
            raise UserError(f"{path}: has no function {name!r} -> give FILE.py:FUNCTION")
        self.fingerprint = f"{path.name}:{name} {file_hash(path)}"

    def __call__(self, frames: Sequence[Frame], _: Sequence[int]) -> Sequence[Found]:
        assert self._function is not None
        found: Sequence[Found] = self._function(list(frames))
        return found


def is_corrected(before: str, after: str) -> bool:
    """Whether two fingerprints are of the same function, in a file that was edited."""
    name, _, _ = after.rpartition(" ")
    return ".py:" in name and before.rpartition(" ")[0] == name
