"""An object detector of transformers (RT-DETR, D-FINE, DETR, ...) from the folder of `save_pretrained`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoImageProcessor, AutoModelForObjectDetection

from polyptrace.core.errors import UserError
from polyptrace.detect.detector import LEAST_SCORE, Frame, ScoredBoxes, as_scored_boxes, on_device, read_declaration
from polyptrace.encoders.weights import weights_hash


@dataclass(frozen=True)
class TransformersSettings:
    """The keys of `detector.toml`."""

    classes: tuple[int, ...] = ()  # numbers of the classes that are polyps; all by default


class TransformersFolder:
    """A model and its image processor."""

    def __init__(self, path: Path, device: torch.device) -> None:
        self._classes = read_declaration(TransformersSettings, path).classes
        self._device = device
        try:
            self._processor: Any = AutoImageProcessor.from_pretrained(path, local_files_only=True)
            model = AutoModelForObjectDetection.from_pretrained(path, local_files_only=True)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
            raise UserError(
                f"{path}: not an object detector of transformers ({reason}) -> save the model and its image processor "
                "with save_pretrained in one folder"
            ) from None
        on_gpu = self._processor.backend == "torchvision"  # the other one, of PIL, computes on the CPU
        self._images_on = device if on_gpu else torch.device("cpu")
        self._model = model.eval().to(device)
        self.fingerprint = f"transformers {weights_hash(model)} {sorted(self._classes)}"

    @torch.inference_mode()
    def __call__(self, frames: Sequence[Frame], _: Sequence[int]) -> list[ScoredBoxes]:
        images = [on_device(frame, self._images_on) for frame in frames]
        inputs = self._processor(images=images, input_data_format="channels_first", return_tensors="pt")
        outputs = self._model(**inputs.to(self._device))
        sizes = [frame.shape[:2] for frame in frames]
        results = self._processor.post_process_object_detection(outputs, threshold=LEAST_SCORE, target_sizes=sizes)
        return [as_scored_boxes(each["boxes"], each["scores"], each["labels"], self._classes) for each in results]
