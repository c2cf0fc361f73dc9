"""A detector as a Python function: `--detector mine.py:detect`.

def detect(frames):  # a list of uint8 RGB arrays (H, W, 3)
    return [np.array([[x, y, width, height, score], ...]) for frame in frames]
"""

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from polyptrace.core.errors import UserError, failure_text
from polyptrace.core.files import file_hash
from polyptrace.detect.detector import Frame, ScoredBoxes


class Function:
    """The function `name` of the file `path`."""

    def __init__(self, path: Path, name: str) -> None:
        if not path.is_file():
            raise UserError(f"--detector {path}:{name}: no such file -> check the path")
        sys.path.insert(0, str(path.resolve().parent))  # as when the file is run as a program
        try:
            content = runpy.run_path(str(path), run_name=path.stem)
        except (Exception, SystemExit) as error:
            raise UserError(
                f"{path}: cannot be imported ({failure_text(error)}) -> check that 'python {path}' works"
            ) from error
        finally:
            sys.path.pop(0)
        if not callable(content.get(name)):
            raise UserError(f"{path}: has no function {name!r} -> give FILE.py:FUNCTION")
        self._function = content[name]
        self.fingerprint = f"{path.name}:{name} {file_hash(path)}"

    def __call__(self, frames: Sequence[Frame], _: Sequence[int]) -> Sequence[ScoredBoxes]:
        return self._function(list(frames))


def is_corrected(before: str, after: str) -> bool:
    """Whether two fingerprints are of the same function, in a file that was edited."""
    name, _, _ = after.rpartition(" ")
    return before != after and ".py:" in name and before.rpartition(" ")[0] == name
