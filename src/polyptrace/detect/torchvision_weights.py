"""A detector of torchvision (Faster R-CNN, RetinaNet, FCOS, SSD) from a file with its weights (`state_dict`).

The architecture and the number of classes are recognised by the names and shapes of the weights. `model` in the TOML
file names it where two architectures share them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torchvision.models import detection, get_model, list_models

from polyptrace.core.errors import UserError
from polyptrace.core.files import file_hash
from polyptrace.detect.detector import Frame, ScoredBoxes, as_scored_boxes, on_device, read_declaration
from polyptrace.encoders.weights import read_tensors

#: The bias of each architecture's classification, and how many values it has per class.
HEADS = {
    "fasterrcnn": ("roi_heads.box_predictor.cls_score.bias", 1),
    "maskrcnn": ("roi_heads.box_predictor.cls_score.bias", 1),
    "fcos": ("head.classification_head.cls_logits.bias", 1),
    "retinanet": ("head.classification_head.cls_logits.bias", 9),
    "ssd300": ("head.classification_head.module_list.0.bias", 4),
    "ssdlite320": ("head.classification_head.module_list.0.1.bias", 6),
}


@dataclass(frozen=True)
class TorchvisionSettings:
    """The keys of the TOML file."""

    model: str = ""  # name in torchvision, such as fasterrcnn_resnet50_fpn
    classes: tuple[int, ...] = ()  # numbers of the classes that are polyps, from 1; all by default


class TorchvisionWeights:
    """A detection model of torchvision with the given weights."""

    def __init__(self, path: Path, device: torch.device) -> None:
        settings = read_declaration(TorchvisionSettings, path)
        state = read_tensors(path)
        self._classes, self._device = settings.classes, device
        self._model = _build(path, settings.model, state).eval().to(device)
        self.fingerprint = f"torchvision {file_hash(path)} {settings}"

    @torch.inference_mode()
    def __call__(self, frames: Sequence[Frame], _: Sequence[int]) -> list[ScoredBoxes]:
        results = self._model([on_device(frame, self._device).float() / 255 for frame in frames])
        return [as_scored_boxes(each["boxes"], each["scores"], each["labels"], self._classes) for each in results]


def _build(path: Path, name: str, state: dict[str, Tensor]) -> nn.Module:
    """The model that the weights fit."""
    names = list_models(module=detection)
    if name and name not in names:
        raise UserError(f"{path.with_suffix('.toml')}: model {name!r} is not known -> one of {', '.join(names)}")
    shapes = {key: value.shape for key, value in state.items()}
    for candidate in [name] if name else names:
        head, per_class = HEADS.get(candidate.partition("_")[0], ("", 1))
        classes = shapes[head][0] // per_class if head in shapes else 0
        if not classes:
            continue
        with torch.device("meta"):
            empty = _model(candidate, classes)
        if {key: value.shape for key, value in empty.state_dict().items()} == shapes:
            model: nn.Module = _model(candidate, classes)
            model.load_state_dict(state)
            return model
    raise UserError(
        f"{path}: its weights fit no detection model of torchvision{f' called {name}' if name else ''} -> save "
        "model.state_dict(), or export the detector as ONNX"
    )


def _model(name: str, classes: int) -> Any:
    return get_model(name, weights=None, weights_backbone=None, num_classes=classes)
