"""Detectors: frames in, boxes out. One file per kind; `load_detector` selects it.

| given | adapter |
|---|---|
| `polyps.onnx` | `onnx_file.py` |
| a folder with `config.json` | `transformers_folder.py` |
| `polyps.pth`, `.pt` or `.safetensors` | `torchvision_weights.py` |
| `mine.py:detect` | `function.py` |
| `mot:boxes.txt`, or another format of `prepare` | `stored_boxes.py` |
| `generated` | the ONNX file that comes with the package, for generated videos only |

A file `polyps.toml` beside the weights (in a folder: `detector.toml`) declares what cannot be recognised.
"""

import tomllib
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from polyptrace.core.errors import UserError
from polyptrace.core.schema import from_json
from polyptrace.data.sources import SOURCES
from polyptrace.encoders.weights import PRETRAINED

Frame = NDArray[np.uint8]  # (H, W, 3) RGB
#: (n, 5): x, y, width, height in pixels of the frame, and the score from 0 to 1.
ScoredBoxes = NDArray[np.float64]

T = TypeVar("T")

#: The name of the detector that comes with the package, and its file.
GENERATED = "generated"
GENERATED_FILE = PRETRAINED / GENERATED / "detector.onnx"

#: Boxes with a lower score are dropped in any case.
LEAST_SCORE = 0.01
#: The score from which a box starts a track in `polyptrace run`.
START_SCORE = 0.5
WEIGHTS = (".pth", ".pt", ".safetensors")


class Detector(Protocol):
    """A detector. `fingerprint` identifies it, so that detections are not mixed with those of another one."""

    fingerprint: str

    def __call__(self, frames: Sequence[Frame], indices: Sequence[int], /) -> Sequence[ScoredBoxes]:
        """The boxes of each frame; `indices` are the numbers of the frames in the video."""


def load_detector(
    spec: str, device: torch.device | None = None, video: Path | None = None, *, by_name: bool = False
) -> Detector:
    """The detector that `spec` names, on a device.

    If the boxes are stored already, `video` selects its own. `by_name`: boxes of one video with another name are not
    those of `video`.
    """
    # adapters are imported when they are used, because each needs another library
    source, _, boxes = spec.partition(":")
    file, _, function = spec.rpartition(":")
    path, device = GENERATED_FILE if spec == GENERATED else Path(spec), device or torch.device("cpu")
    if source in SOURCES and boxes:
        from polyptrace.detect.stored_boxes import StoredBoxes

        return StoredBoxes(source, Path(boxes), video, by_name=by_name)
    if file.endswith(".py"):
        from polyptrace.detect.function import Function

        return Function(Path(file), function)
    if path.suffix.lower() == ".onnx" and path.is_file():
        from polyptrace.detect.onnx_file import OnnxFile

        return OnnxFile(path, device)
    if (path / "config.json").is_file():
        from polyptrace.detect.transformers_folder import TransformersFolder

        return TransformersFolder(path, device)
    if path.suffix.lower() in WEIGHTS and path.is_file():
        from polyptrace.detect.torchvision_weights import TorchvisionWeights

        return TorchvisionWeights(path, device)
    problem = "not a known kind of detector" if path.exists() else "no such file or folder"
    for near in get_close_matches(source, (GENERATED, *SOURCES), 1):
        meant = near if near == GENERATED else f"{near}:{boxes or 'PATH'}"
        raise UserError(f"--detector {spec}: {problem} -> did you mean {meant}?")
    raise UserError(
        f"--detector {spec}: {problem} -> give an ONNX file, a transformers folder, torchvision weights, "
        f"FILE.py:FUNCTION, or stored boxes as FORMAT:PATH ({', '.join(SOURCES)}); for generated videos, {GENERATED}"
    )


def read_declaration(kind: type[T], path: Path) -> T:
    """The settings beside a detector as a dataclass; the defaults if there is no such file."""
    file = path / "detector.toml" if path.is_dir() else path.with_suffix(".toml")
    if not file.is_file():
        return kind()
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: not valid TOML ({error}) -> correct it") from None
    return from_json(kind, content, str(file), "see docs/video.md for the keys")


def on_device(frame: Frame, device: torch.device) -> torch.Tensor:
    """A frame as uint8 (3, H, W), not contiguous: a GPU transposes it much faster than the CPU would before."""
    return torch.from_numpy(np.require(frame, requirements="W")).to(device, non_blocking=True).permute(2, 0, 1)


def as_scored_boxes(
    xyxy: torch.Tensor, scores: torch.Tensor, labels: torch.Tensor, classes: Sequence[int]
) -> ScoredBoxes:
    """Corners (n, 4) and scores (n,) as x, y, width, height and score; of labels (n,), the given classes, or all."""
    scored = torch.cat([xyxy[:, :2], xyxy[:, 2:] - xyxy[:, :2], scores[:, None]], 1)
    if classes:
        scored = scored[torch.isin(labels, torch.tensor(list(classes), device=labels.device))]
    return scored.double().cpu().numpy()
