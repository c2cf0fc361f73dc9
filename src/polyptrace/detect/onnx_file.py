"""A detector as an ONNX file, run by ONNX Runtime (extra `video`).

The layout of its outputs is recognised by their names and shapes:

| layout | outputs | written by |
|---|---|---|
| `yolo` | (N, 4 + C, A): centre x, y, width, height, class scores | ultralytics 8 and later |
| `yolov5` | (N, A, 5 + C): centre x, y, width, height, objectness, class scores | YOLOv5, YOLOX, YOLOv7 |
| `rows` | (N, K, 6): left, top, right, bottom, score, class | exports that include NMS, YOLOv10 |
| `detr` | `logits` (N, Q, C) and `pred_boxes` (N, Q, 4), shares of the picture | transformers |
| `separate` | `boxes` (N, K, 4) corners, `scores` and `labels` (N, K) | RT-DETR, D-FINE, torchvision |

Boxes are in pixels of the network's input, except for `detr`.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from torchvision.ops import batched_nms, box_convert

from polyptrace.core.device import torch_threads, usable_cores
from polyptrace.core.errors import UserError, warn
from polyptrace.core.files import file_hash
from polyptrace.detect.detector import LEAST_SCORE, Frame, ScoredBoxes, as_scored_boxes, on_device, read_declaration

Layout = Literal["yolo", "yolov5", "rows", "detr", "separate"]

#: Layouts that are recognised by the names of their outputs.
NAMES: dict[Layout, set[str]] = {"detr": {"logits", "pred_boxes"}, "separate": {"boxes", "scores", "labels"}}
MOST_ROWS = 1000  # an output (N, A, 6) with more rows is `yolov5` with one class
DEFAULT_SIZE = 640
PADDING = 114  # grey of a letterbox, as YOLO is trained
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8}


@dataclass(frozen=True)
class OnnxSettings:
    """The keys of the TOML file; what is missing is recognised, or has this value."""

    layout: Layout | None = None
    size: tuple[int, ...] = ()  # width and height of the network's input
    letterbox: bool | None = None  # keep the aspect ratio; by default for yolo, yolov5 and rows
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)  # of values from 0 to 1
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    boxes: Literal["cxcywh", "xyxy", "xywh"] | None = None
    scores: Literal["sigmoid", "softmax"] = "sigmoid"  # of `detr`; softmax: the last class is no object
    classes: tuple[int, ...] = ()  # numbers of the classes that are polyps; all by default
    overlap: float = 0.7  # IoU above which the weaker of two boxes is removed, for yolo and yolov5

    def __post_init__(self) -> None:
        if self.size and (len(self.size) != 2 or min(self.size) < 1):
            raise ValueError(f"size: {list(self.size)} is not [width, height] in pixels")
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) != 3:
                raise ValueError(f"{name}: {list(values)} is not one number for each of red, green and blue")
        if min(self.std) <= 0:
            raise ValueError(f"std: {list(self.std)} has a number that is not above 0")
        if not 0 <= self.overlap <= 1:
            raise ValueError(f"overlap: {self.overlap:g} is not from 0 to 1")


class OnnxFile:
    """A session of ONNX Runtime and what its inputs and outputs mean."""

    def __init__(self, path: Path, device: torch.device) -> None:
        self._path, self._settings = path, read_declaration(OnnxSettings, path)
        self._session = _session(path, device)
        self._image, self._size_input = _inputs(path, self._session.get_inputs())
        shape, (width, height) = self._image.shape, self._settings.size or (0, 0)
        self._width = shape[3] if isinstance(shape[3], int) else width or DEFAULT_SIZE
        self._height = shape[2] if isinstance(shape[2], int) else height or DEFAULT_SIZE
        if self._settings.size and (self._width, self._height) != (width, height):
            raise UserError(
                f"{path}: its input is {self._width} x {self._height} pixels, {path.stem}.toml says {width} x {height}"
                " -> correct or remove size"
            )
        self._one_by_one = isinstance(shape[0], int) or self._size_input is not None
        self._names = [output.name for output in self._session.get_outputs()]
        self._layout = self._find_layout()
        letterbox = self._settings.letterbox
        self._letterbox = self._layout in ("yolo", "yolov5", "rows") if letterbox is None else letterbox
        self.fingerprint = f"onnx {file_hash(path)} {self._settings}"

    @torch_threads(1)  # everything around the network is small
    def __call__(self, frames: Sequence[Frame], _: Sequence[int]) -> list[ScoredBoxes]:
        with ThreadPoolExecutor(min(len(frames), usable_cores())) as pool:  # a GPU would wait for the resizing
            inputs, scales, shifts = zip(*pool.map(self._prepare, frames), strict=True)
        batches = [[each] for each in inputs] if self._one_by_one else [list(inputs)]
        decoded = [one for batch in batches for one in self._decode(self._run(np.stack(batch)))]
        results = []
        for (boxes, scores, labels), scale, shift in zip(decoded, scales, shifts, strict=True):
            best = scores >= LEAST_SCORE
            boxes, scores, labels = boxes[best], scores[best], labels[best]
            if self._layout in ("yolo", "yolov5"):
                best = batched_nms(boxes, scores, labels, self._settings.overlap)
                boxes, scores, labels = boxes[best], scores[best], labels[best]
            results.append(as_scored_boxes((boxes - shift) / scale, scores, labels, self._settings.classes))
        return results

    def _prepare(self, frame: Frame) -> tuple[NDArray[Any], Tensor, Tensor]:
        """The network's input (3, h, w), and the scale and shift (4,) of boxes from the frame to it."""
        picture = on_device(frame, torch.device("cpu"))
        picture, scale, shift = resize(picture, self._width, self._height, self._letterbox)
        kind = TYPES[self._image.type]
        if kind != np.uint8:
            mean, std = (torch.tensor(each)[:, None, None] for each in (self._settings.mean, self._settings.std))
            picture = (picture.float() / 255 - mean) / std
        return picture.contiguous().numpy().astype(kind), scale, shift

    def _run(self, pictures: NDArray[Any]) -> dict[str, Tensor]:
        """The outputs for pictures (N, 3, h, w)."""
        feed = {self._image.name: pictures}
        if self._size_input is not None:
            feed[self._size_input] = np.array([[self._width, self._height]] * len(pictures))
        return {
            name: torch.from_numpy(np.asarray(value))
            for name, value in zip(self._names, self._session.run(None, feed), strict=True)
        }

    def _find_layout(self) -> Layout:
        """The declared or recognised layout, if the outputs for a grey picture fit it."""
        try:
            outputs = self._run(np.full((1, 3, self._height, self._width), 0.5, TYPES[self._image.type]))
        except Exception as error:  # ONNX Runtime has its own exceptions
            reason = str(error).partition("\n")[0]
            raise UserError(
                f"{self._path}: cannot be run on a picture of {self._width} x {self._height} pixels ({reason}) -> "
                f"declare the size of its input in {self._path.stem}.toml, or export the detector again"
            ) from None
        declared = self._settings.layout
        layout = declared or _recognised(outputs)
        if layout and _fits(layout, outputs):
            return layout
        shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in outputs.items())
        problem = f"do not fit the layout {declared!r}" if declared else "are not recognised"
        raise UserError(
            f"{self._path}: its outputs {problem}: {shapes} -> expected are (N, 4 + C, A), (N, A, 5 + C), "
            f"(N, K, 6), logits and pred_boxes, or boxes, scores and labels; {'correct' if declared else 'declare'} "
            f"the layout in {self._path.stem}.toml"
        )

    def _decode(self, outputs: dict[str, Tensor]) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Corners (n, 4) in pixels of the network's input, scores (n,) and classes (n,) of each picture."""
        first = next(iter(outputs.values())).float()
        match self._layout:
            case "yolo":
                boxes, (scores, labels) = first[:, :4].mT, first[:, 4:].max(1)
                form = "cxcywh"
            case "yolov5":
                boxes, (scores, labels) = first[..., :4], (first[..., 4:5] * first[..., 5:]).max(2)
                form = "cxcywh"
            case "rows":
                boxes, scores, labels, form = first[..., :4], first[..., 4], first[..., 5].long(), "xyxy"
            case "detr":
                logits, form = outputs["logits"].float(), "cxcywh"
                soft = self._settings.scores == "softmax"
                scores, labels = (logits.softmax(2)[..., :-1] if soft else logits.sigmoid()).max(2)
                boxes = outputs["pred_boxes"].float() * torch.tensor([self._width, self._height] * 2)
            case "separate":
                boxes, scores, labels = (outputs[name] for name in ("boxes", "scores", "labels"))
                boxes, form = boxes.float(), "xyxy"
                if boxes.ndim == 2:
                    boxes, scores, labels = boxes[None], scores[None], labels[None]
        corners = box_convert(boxes, self._settings.boxes or form, "xyxy")
        return list(zip(corners, scores.float(), labels, strict=True))


def _recognised(outputs: dict[str, Tensor]) -> Layout | None:
    """The layout of outputs by their names and shapes."""
    for layout in NAMES:
        if _fits(layout, outputs):
            return layout
    first = next(iter(outputs.values()))
    if len(outputs) == 1 and first.ndim == 3:
        _, rows, columns = first.shape
        if 5 <= rows < columns:
            return "yolo"
        if columns == 6 and rows <= MOST_ROWS:
            return "rows"
        if 6 <= columns < rows:
            return "yolov5"
    return None


def _fits(layout: Layout, outputs: dict[str, Tensor]) -> bool:
    """Whether the outputs have the names or the shape that a layout needs."""
    if layout in NAMES:
        return NAMES[layout] <= set(outputs)
    shape = next(iter(outputs.values())).shape
    return len(shape) == 3 and (shape[1] >= 5 if layout == "yolo" else shape[2] >= 6)


def resize(picture: Tensor, width: int, height: int, letterbox: bool) -> tuple[Tensor, Tensor, Tensor]:
    """A picture (3, H, W) uint8 in another size; the scale and shift (4,) of its boxes."""
    scale_x, scale_y = width / picture.shape[2], height / picture.shape[1]
    if letterbox:
        scale_x = scale_y = min(scale_x, scale_y)
    inner = max(1, round(picture.shape[1] * scale_y)), max(1, round(picture.shape[2] * scale_x))
    picture = picture[None].contiguous(memory_format=torch.channels_last)
    picture = functional.interpolate(picture, size=inner, mode="bilinear", antialias=True)
    left, top = (width - inner[1]) // 2, (height - inner[0]) // 2
    edges = (left, width - inner[1] - left, top, height - inner[0] - top)
    picture = functional.pad(picture, edges, value=PADDING)[0]
    return picture, torch.tensor([scale_x, scale_y] * 2), torch.tensor([left, top] * 2).float()


def _session(path: Path, device: torch.device) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise UserError(f"{path}: ONNX files need ONNX Runtime -> pip install 'polyptrace[video]'") from None
    available = onnxruntime.get_available_providers()
    wanted = ["CUDAExecutionProvider"] if device.type == "cuda" else []
    if wanted and wanted[0] not in available:
        warn(f"{path}: runs on the CPU, because ONNX Runtime has no CUDA -> pip install onnxruntime-gpu")
    providers = [name for name in (*wanted, "CPUExecutionProvider") if name in available]
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # idle threads leave cores to the decoder
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=providers)
    except Exception as error:  # ONNX Runtime has its own exceptions
        reason = str(error).partition("\n")[0]
        raise UserError(f"{path}: not a readable ONNX file ({reason}) -> export the detector again") from None


def _inputs(path: Path, inputs: Sequence[Any]) -> tuple[Any, str | None]:
    """The input for pictures, and the name of the one for their size, if there is one."""
    pictures = [each for each in inputs if len(each.shape) == 4 and each.type in TYPES]
    images = [each for each in pictures if each.shape[1] == 3 or not isinstance(each.shape[1], int)]  # 3 or any
    sizes = [each.name for each in inputs if len(each.shape) == 2 and "size" in each.name]
    if len(images) == 1 and len(images) + len(sizes) == len(inputs):
        return images[0], sizes[0] if sizes else None
    given = ", ".join(f"{each.name} {each.shape} {each.type}" for each in inputs) or "none"
    raise UserError(
        f"{path}: expected one input (N, 3, height, width) of floats or bytes, found: {given} -> export the detector "
        "with pictures as its input"
    )
