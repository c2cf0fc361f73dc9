"""Train a polyp detector on boxes in any format of `prepare` that has splits, and measure its AP50.

    polyptrace synth generated --preset full --tracklets 10 --every-frame
    python examples/train_detector.py coco generated --negatives 0.15 --batch 64 --seconds 240 --out detector
    polyptrace run procedure.mp4 --detector detector/detector.onnx --out case

`--model` is one of:

- `light`: FCOS of torchvision on the backbone of the default encoder, 10 MB, saved as ONNX; needs no download;
- a pretrained RT-DETRv2 or D-FINE of transformers (folder or hub id), saved as a folder for `--detector`. These models
  are accurate, but from random weights they learn nothing in a few minutes.

Every 20 seconds the weights are saved. If the training is killed, export them with `--weights` and `--steps 0`:

    python examples/train_detector.py coco generated --weights detector/weights.safetensors --steps 0 --out exported
"""

import argparse
import math
import mmap
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx
import timm
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.fcos import FCOS, FCOSHead
from torchvision.models.detection.image_list import ImageList
from torchvision.ops import FeaturePyramidNetwork, box_convert, generalized_box_iou_loss, sigmoid_focal_loss
from transformers import AutoImageProcessor, AutoModelForObjectDetection

from polyptrace.core.codec import decode_image
from polyptrace.core.console import progress
from polyptrace.core.device import usable_cores
from polyptrace.core.files import atomic_folder, provenance, refuse_existing, write_json
from polyptrace.data import Boxes
from polyptrace.data.sources import read_source
from polyptrace.data.sources.file_names import image_root
from polyptrace.data.tracks import box_iou
from polyptrace.detect import Detector, load_detector
from polyptrace.detect.onnx_file import PADDING, resize
from polyptrace.embed.export import remove_traces
from polyptrace.encoders import load_encoder

Example = tuple[Path, np.ndarray]  # image file, boxes (n, 4) x, y, w, h in pixels
Item = tuple[Tensor, Tensor]  # picture (3, S, S) uint8, boxes (n, 4) left, top, right, bottom in its pixels
Batch = tuple[Tensor, Tensor]  # pictures (B, 3, S, S), boxes (B, G, 4) in their pixels; rows of NaN are no boxes
WARM_UP = 0.05  # share of the training in which the learning rate rises
FOR_TEST = 0.12  # share of the time
STRIDES = (8, 16, 32)  # pixels between the anchors of a level
ZOOM, SHIFT = 1.4, 0.1  # of augmentation: largest factor, and smallest range of shifts as a share of half a picture
LEAST_VISIBLE = 0.3  # share of a box that has to stay in the picture
CENTRE_RADIUS = 1.5  # strides between an anchor and the centre of its box
SAVE_EVERY_S = 20.0
RECORD, ONNX, WEIGHTS = "training.json", "detector.onnx", "weights.safetensors"
#: Of the ONNX file; polyps rarely overlap, so that of two overlapping boxes the weaker one is usually wrong.
DECLARATION = 'layout = "yolo"\noverlap = 0.3\n'
NEGATIVES = "share of training images without a box: those of the same videos that the annotations do not name"

IN_MEMORY = "decode each image once and keep it; 10,000 images of 256 pixels need 2 GB"


class Network(Protocol):
    """A network with its loss, and the form in which it is saved."""

    module: nn.Module
    lr: float
    letterbox: bool  # whether pictures are letterboxed instead of stretched

    def loss(self, pictures: Tensor, boxes: Tensor) -> Tensor: ...  # of pictures with values from 0 to 1
    def load(self, weights: Path) -> None: ...
    def save(self, folder: Path) -> None: ...
    def finish(self, folder: Path) -> str: ...  # writes the final files; returns the value for --detector


def main(words: list[str] | None = None) -> float:
    started = time.monotonic()
    options = parse(words)
    refuse_existing(options.out)
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    train = read_images(options, options.paths, options.train)
    test = read_images(options, options.test_paths or options.paths, options.test)
    network: Network = Light(options.size) if options.model == "light" else Pretrained(options.model, options.size)
    if options.weights:
        network.load(options.weights)
    network.module.to("cuda" if torch.cuda.is_available() else "cpu")
    end = started + options.seconds
    given = {name: str(each) for name, each in vars(options).items()}

    def save(steps: int) -> None:
        """Writes the current detector, so that a killed training leaves the last one that was saved."""
        with atomic_folder(options.out, overwrite=True, mark=RECORD) as folder:
            network.save(folder)
            write_json(folder / RECORD, {"steps": steps, "options": given, "made_by": provenance()})

    steps = fit(network, batches(train, network, options), options, started, save) if options.steps else 0
    save(steps)
    detector = network.finish(options.out)
    chosen = [test[i] for i in np.random.default_rng(0).permutation(len(test))[: options.test_images]]
    value, count = ap50(load_detector(detector), chosen, end)
    facts = {"steps": steps, "AP50": value, "test images": count, "options": given, "made_by": provenance()}
    write_json(options.out / RECORD, facts)
    print(f"AP50 on {count:,} test images: {value:.3f}; saved: {detector}")
    return value


def parse(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("format", help="format of the boxes: coco, mot, yolo, voc, ...")
    parser.add_argument("paths", type=Path, nargs="+", metavar="path", help="folders of the boxes and images")
    parser.add_argument("--train", default="train", help="split for training")
    parser.add_argument("--test", default="test", help="split for testing")
    parser.add_argument("--test-paths", type=Path, nargs="+", metavar="PATH", help="folders for testing, if others")
    parser.add_argument("--out", type=Path, required=True, help="folder of the detector")
    parser.add_argument("--model", default="light", help="light, or a pretrained model")
    parser.add_argument("--size", type=int, default=256, help="side of the network's input in pixels")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=math.inf, help="time for all of it, from reading to AP50")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--workers", type=int, default=usable_cores(), help="processes that decode images")
    parser.add_argument("--in-memory", action="store_true", help=IN_MEMORY)
    parser.add_argument("--weights", type=Path, help="start from the weights that a training saved")
    parser.add_argument("--negatives", type=float, default=0.0, metavar="SHARE", help=NEGATIVES)
    parser.add_argument("--lr", type=float, help="highest learning rate; by default that of the model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--test-images", type=int, default=2000)
    return parser.parse_args(words)


def read_images(options: argparse.Namespace, paths: list[Path], split: str) -> list[Example]:
    """Each image file with its boxes (n, 4) x, y, w, h; with --negatives also those without a box."""
    images: list[Example] = []
    for path in paths:
        boxes: Boxes = read_source(options.format, path, {"split": split})
        root = image_root(path)
        rows: dict[str, list[int]] = {}
        for row, file in enumerate(boxes.file):
            rows.setdefault(file, []).append(row)
        mine = [(root / file, boxes.xywh[rows[file]]) for file in rows if (root / file).is_file()]
        images += mine
        if options.negatives:
            videos = {video_of(root / file) for file in rows}
            others = {file for folder in {file.parent for file, _ in mine} for file in folder.iterdir()}
            others -= {root / file for file in rows}
            images += [(file, np.empty((0, 4))) for file in sorted(others) if video_of(file) in videos]
    return images


def video_of(file: Path) -> tuple[Path, str]:
    """Folder and name of an image without its frame number: files of one video have it in common."""
    return file.parent, file.stem.rstrip("0123456789") + file.suffix


class Pyramid(nn.Module):
    """The last three stages of the default encoder's backbone, with a feature pyramid."""

    out_channels = 64  # a name that torchvision expects

    def __init__(self) -> None:
        super().__init__()
        self.stages = timm.create_model("regnetx_002", features_only=True, out_indices=(2, 3, 4))
        self.stages.load_state_dict(load_encoder("default").backbone.state_dict())
        self.pyramid = FeaturePyramidNetwork(self.stages.feature_info.channels(), self.out_channels)

    def forward(self, pictures: Tensor) -> dict[str, Tensor]:
        named = {str(number): features for number, features in enumerate(self.stages(pictures))}
        features: dict[str, Tensor] = self.pyramid(named)
        return features


class Light:
    """FCOS on the backbone of the default encoder."""

    lr = 1e-3
    letterbox = True

    def __init__(self, size: int) -> None:
        self.size, preprocess = size, load_encoder("default").preprocess
        width = Pyramid.out_channels
        fcos = FCOS(
            Pyramid(),
            num_classes=1,
            min_size=size,
            max_size=size,
            image_mean=list(preprocess.mean),
            image_std=list(preprocess.std),
            anchor_generator=AnchorGenerator(tuple((stride,) for stride in STRIDES), ((1.0,),) * len(STRIDES)),
            head=FCOSHead(width, num_anchors=1, num_classes=1, num_convs=2),
            _skip_resize=True,
        )
        self.module = FlatFCOS(fcos, size)

    def loss(self, pictures: Tensor, boxes: Tensor) -> Tensor:
        return fcos_loss(self.module.outputs(pictures), self.module.anchors, boxes)

    def load(self, weights: Path) -> None:
        self.module.fcos.load_state_dict(load_file(weights))

    def save(self, folder: Path) -> None:
        weights = self.module.fcos.state_dict()
        save_file({name: value.contiguous() for name, value in weights.items()}, folder / WEIGHTS)

    def finish(self, folder: Path) -> str:
        """Writes the network as ONNX, and how `detect` reads it."""
        export_onnx(self.module.cpu().eval(), torch.rand(2, 3, self.size, self.size), folder / ONNX)
        (folder / ONNX).with_suffix(".toml").write_text(DECLARATION, encoding="utf-8")
        (folder / WEIGHTS).unlink(missing_ok=True)
        return str(folder / ONNX)


class FlatFCOS(nn.Module):
    """FCOS with one output, which `detect` knows as layout `yolo`: (N, 5, A) centre x, y, width, height, score."""

    def __init__(self, fcos: FCOS, size: int) -> None:
        super().__init__()
        self.fcos = fcos
        maps = [torch.zeros(1, 1, size // stride, size // stride) for stride in STRIDES]
        shapes = ImageList(torch.zeros(1, 3, size, size), [(size, size)])
        self.register_buffer("anchors", fcos.anchor_generator(shapes, maps)[0])  # (A, 4), squares of a stride
        for name in ("mean", "std"):
            self.register_buffer(name, torch.tensor(getattr(fcos.transform, f"image_{name}"))[:, None, None])

    def outputs(self, pictures: Tensor) -> dict[str, Tensor]:
        """Logits (N, A, 1), distances to the four edges (N, A, 4) in strides, and logits of centredness (N, A, 1)."""
        features = self.fcos.backbone((pictures - self.mean) / self.std)
        outputs: dict[str, Tensor] = self.fcos.head(list(features.values()))
        return outputs

    def forward(self, pictures: Tensor) -> Tensor:
        outputs = self.outputs(pictures)
        scores = (outputs["cls_logits"].sigmoid() * outputs["bbox_ctrness"].sigmoid()).sqrt()
        corners = self.fcos.box_coder.decode(outputs["bbox_regression"], self.anchors)
        return torch.cat([box_convert(corners, "xyxy", "cxcywh"), scores], 2).mT


def fcos_loss(outputs: dict[str, Tensor], anchors: Tensor, boxes: Tensor) -> Tensor:
    """The loss of torchvision's FCOS for boxes (B, G, 4), without its loops over the pictures of a batch."""
    matched, positive = assign(anchors, boxes)
    logits, regression, centred = (outputs[name].float() for name in ("cls_logits", "bbox_regression", "bbox_ctrness"))
    stride = (anchors[:, 2] - anchors[:, 0])[:, None]
    centre = (anchors[:, :2] + anchors[:, 2:]) / 2
    corners = [centre - regression[..., :2] * stride, centre + regression[..., 2:] * stride]
    predicted = torch.cat(corners, 2)  # (B, A, 4)
    near, far = (centre - matched[..., :2])[positive], (matched[..., 2:] - centre)[positive]  # (P, 2)
    centredness = (torch.minimum(near, far) / torch.maximum(near, far)).prod(1).sqrt()
    loss = sigmoid_focal_loss(logits[..., 0], positive.float(), reduction="sum")
    loss = loss + generalized_box_iou_loss(predicted[positive], matched[positive], reduction="sum")
    loss = loss + functional.binary_cross_entropy_with_logits(centred[..., 0][positive], centredness, reduction="sum")
    total: Tensor = loss / positive.sum().clamp(min=1)
    return total


def assign(anchors: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
    """The box (B, A, 4) assigned to each anchor, and whether it has one (B, A), as in torchvision's FCOS.

    An anchor gets the smallest box around its centre whose centre is near and whose size fits its stride.
    """
    stride = (anchors[:, 2] - anchors[:, 0])[:, None]  # (A, 1)
    centre = ((anchors[:, :2] + anchors[:, 2:]) / 2)[:, None]  # (A, 1, 2)
    low, high = boxes[:, None, :, :2], boxes[:, None, :, 2:]  # (B, 1, G, 2)
    distances = torch.cat([centre - low, high - centre], 3)  # (B, A, G, 4); NaN is never true below
    farthest = distances.amax(3)
    fits = (distances.amin(3) > 0) & ((centre - (low + high) / 2).abs().amax(3) < CENTRE_RADIUS * stride)
    fits &= (farthest > 4 * stride) | (stride == STRIDES[0])
    fits &= (farthest < 8 * stride) | (stride == STRIDES[-1])
    area = torch.where(fits, (high - low).prod(3), math.inf)  # (B, A, G)
    smallest = area.argmin(2, keepdim=True).expand(-1, -1, 4)
    return boxes.gather(1, smallest), fits.any(2)


def export_onnx(module: nn.Module, pictures: Tensor, path: Path) -> None:
    """Writes a network for any number of pictures."""
    names = {"input_names": ["pictures"], "output_names": ["boxes"]}
    program = torch.onnx.export(
        module, (pictures,), dynamo=True, external_data=False, verbose=False, dynamic_shapes=({0: "N"},), **names
    )
    assert program is not None
    model = program.model_proto
    remove_traces(model)
    onnx.save(model, path)


class Pretrained:
    """An object detector of transformers."""

    lr = 1e-4
    letterbox = False

    def __init__(self, name: str, size: int) -> None:
        square = {"height": size, "width": size}
        self.module: Any = AutoModelForObjectDetection.from_pretrained(name, num_labels=1, ignore_mismatched_sizes=True)
        self.processor: Any = AutoImageProcessor.from_pretrained(name, size=square)

    def loss(self, pictures: Tensor, boxes: Tensor) -> Tensor:
        if self.processor.do_normalize:
            mean, std = (
                torch.tensor(each, device=pictures.device)[:, None, None]
                for each in (self.processor.image_mean, self.processor.image_std)
            )
            pictures = (pictures - mean) / std
        shares = box_convert(boxes, "xyxy", "cxcywh") / pictures.shape[-1]
        each_one = [rows[~rows[:, 0].isnan()] for rows in shares]
        labels = [{"boxes": each, "class_labels": each.new_zeros(len(each), dtype=torch.long)} for each in each_one]
        value: Tensor = self.module(pixel_values=pictures, labels=labels).loss
        return value

    def load(self, weights: Path) -> None:
        self.module.load_state_dict(load_file(weights))

    def save(self, folder: Path) -> None:
        self.module.save_pretrained(folder)
        self.processor.save_pretrained(folder)

    def finish(self, folder: Path) -> str:
        return str(folder)


class Images(Dataset[Item]):
    """Images resized to the input of the network, with their boxes; decoded by the process that reads them."""

    def __init__(self, images: list[Example], size: int, letterbox: bool, in_memory: bool = False) -> None:
        self.images, self.size, self.letterbox = images, size, letterbox
        count = len(images) if in_memory else 0
        self.pictures = shared_memory((count, 3, size, size), torch.uint8)
        self.changes = shared_memory((count, 2, 4), torch.float32)  # scale and shift of the boxes; 0: not yet decoded

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Item:
        file, boxes = self.images[index]
        corners = box_convert(torch.from_numpy(boxes).float(), "xywh", "xyxy")
        if len(self.pictures) and self.changes[index].any():
            picture, (scale, shift) = self.pictures[index], self.changes[index]
        else:
            picture, scale, shift = resize(decode_image(file.read_bytes()), self.size, self.size, self.letterbox)
            if len(self.pictures):
                self.pictures[index] = picture
                self.changes[index] = torch.stack([scale, shift])  # last: it marks the picture as decoded
        return picture, corners * scale + shift


def shared_memory(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Zeros that forked processes share."""
    size = math.prod(shape) * dtype.itemsize
    return torch.frombuffer(mmap.mmap(-1, size), dtype=dtype).view(shape) if size else torch.zeros(shape, dtype=dtype)


def batches(images: list[Example], network: Network, options: argparse.Namespace) -> DataLoader[Batch]:
    """Random batches, decoded and resized by worker processes."""
    empty = np.array([not len(boxes) for _, boxes in images])
    weights = np.where(empty, options.negatives / max(empty.sum(), 1), (1 - options.negatives) / (~empty).sum())
    return DataLoader(
        Images(images, options.size, network.letterbox, options.in_memory),
        options.batch,
        sampler=WeightedRandomSampler(weights.tolist(), options.steps * options.batch),
        collate_fn=collate,
        num_workers=options.workers,
        multiprocessing_context="fork" if options.workers else None,
        pin_memory=torch.cuda.is_available(),
    )


def collate(items: list[Item]) -> Batch:
    """Items as one batch; boxes are padded with NaN."""
    boxes = torch.full((len(items), max(1, *(len(corners) for _, corners in items)), 4), math.nan)
    for row, (_, corners) in zip(boxes, items, strict=True):
        row[: len(corners)] = corners
    return torch.stack([picture for picture, _ in items]), boxes


def augment(pictures: Tensor, boxes: Tensor) -> Batch:
    """Augments pictures (B, 3, S, S) with values from 0 to 1: colours, flips, turns, scale and shift."""
    return warp(recolour(pictures), boxes, *random_views(len(pictures), pictures.device))


def random_views(count: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Matrices (B, 2, 2) and shifts (B, 2) from positions in the new picture to the old one; a picture is -1 to 1."""
    zoom = torch.empty(count, device=device).uniform_(-1, 1).mul(math.log(ZOOM)).exp()
    signs = torch.randint(0, 2, (count, 2), device=device) * 2.0 - 1
    matrices = torch.diag_embed(signs / zoom[:, None])
    turned = torch.rand(count, device=device) < 0.5
    matrices = torch.where(turned[:, None, None], matrices.flip(2), matrices)
    room = (1 - 1 / zoom).abs() + SHIFT
    return matrices, torch.empty(count, 2, device=device).uniform_(-1, 1) * room[:, None]


def warp(pictures: Tensor, boxes: Tensor, matrices: Tensor, shifts: Tensor) -> Batch:
    """Transforms pictures and boxes; boxes that are mostly outside the picture become NaN."""
    grid = functional.affine_grid(torch.cat([matrices, shifts[:, :, None]], 2), list(pictures.shape), False)
    grey = PADDING / 255
    seen = functional.grid_sample(pictures - grey, grid, align_corners=False) + grey
    size = pictures.shape[-1]
    points = boxes.unflatten(2, (2, 2)) * (2 / size) - 1 - shifts[:, None, None]  # (B, G, 2, 2)
    points = (torch.einsum("bij,bgpj->bgpi", torch.linalg.inv(matrices), points) + 1) * (size / 2)
    corners = torch.cat([points.amin(2), points.amax(2)], 2)  # (B, G, 4)
    clipped = corners.clamp(0, size)
    area, left = ((each[..., 2:] - each[..., :2]).prod(2) for each in (corners, clipped))
    return seen, torch.where((left > LEAST_VISIBLE * area)[..., None], clipped, math.nan)


def recolour(pictures: Tensor) -> Tensor:
    """Pictures (B, 3, S, S) with another brightness, contrast, saturation and tint, some of them blurred or noisy."""

    def random(low: float, high: float, channels: int = 1) -> Tensor:
        return torch.empty(len(pictures), channels, 1, 1, device=pictures.device).uniform_(low, high)

    blurred = functional.avg_pool2d(functional.pad(pictures, (1, 1, 1, 1), mode="replicate"), 3, 1)
    pictures = pictures.lerp(blurred, random(-1, 1).clamp(min=0))
    pictures = pictures.mean(1, keepdim=True).lerp(pictures, random(0.6, 1.3))
    middle = pictures.mean((1, 2, 3), keepdim=True)
    pictures = middle + (pictures - middle) * random(0.8, 1.25)
    pictures = pictures * random(0.8, 1.2) * random(0.92, 1.08, 3)
    return (pictures + torch.randn_like(pictures) * random(-0.03, 0.03).clamp(min=0)).clamp(0, 1)


def fit(
    network: Network, batches: Iterable[Batch], options: argparse.Namespace, started: float, save: Callable[[int], None]
) -> int:
    """Trains until the steps or their share of the seconds are used up; returns the number of steps."""
    highest = options.lr or network.lr
    optimiser = torch.optim.AdamW(network.module.train().parameters(), highest, weight_decay=0.02)
    device = next(network.module.parameters()).device
    begun = saved = time.monotonic()
    end = started + (1 - FOR_TEST) * options.seconds
    step = 0
    with progress("training", None if end < math.inf else options.steps * options.batch, "images") as bar:
        for pictures, boxes in batches:
            now = time.monotonic()
            done = max(step / options.steps, (now - begun) / max(end - begun, 1e-9))
            if done >= 1:
                break
            if now - saved > SAVE_EVERY_S:
                save(step)
                saved = now
            for group in optimiser.param_groups:
                group["lr"] = highest * min(done / WARM_UP, 1) * (1 + math.cos(math.pi * done)) / 2
            on_device = [each.to(device, non_blocking=True) for each in (pictures, boxes)]
            loss = network.loss(*augment(on_device[0].float() / 255, on_device[1]))
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.module.parameters(), 1.0)
            optimiser.step()
            step += 1
            bar.say(f"step {step}, {done:.0%} done, loss {loss.item():.2f}")
            bar.advance(len(boxes))
    return step


def ap50(detector: Detector, images: list[Example], end: float = math.inf) -> tuple[float, int]:
    """AP50 of a detector, and the number of images it was measured on; stops at the time `end` (`time.monotonic`)."""
    hits: list[tuple[float, bool]] = []
    total = count = 0
    for begin in range(0, len(images), 32):
        if count and time.monotonic() > end:
            break
        part = images[begin : begin + 32]
        frames = [decode_image(file.read_bytes()).permute(1, 2, 0).contiguous().numpy() for file, _ in part]
        for (_, boxes), detected in zip(part, detector(frames, list(range(len(part)))), strict=True):
            hits += matches(detected, boxes)
            total += len(boxes)
        count += len(part)
    return average_precision(hits, total), count


def average_precision(hits: list[tuple[float, bool]], total: int) -> float:
    """The area under the curve of precision over recall, precision made monotonic; `total`: number of true boxes."""
    right = np.cumsum([hit for _, hit in sorted(hits, key=lambda pair: -pair[0])])
    precision = np.maximum.accumulate((right / np.arange(1, len(right) + 1))[::-1])[::-1]
    return float((precision * np.diff(right, prepend=0)).sum() / total)


def matches(detected: np.ndarray, boxes: np.ndarray) -> list[tuple[float, bool]]:
    """Score of each box found in an image, and whether it is the first one that overlaps a true box (IoU 0.5)."""
    free, hits = np.ones(len(boxes), bool), []
    for *box, score in detected[np.argsort(-detected[:, 4])].tolist():
        overlap = box_iou(np.tile(box, (len(boxes), 1)), boxes) * free
        hits.append((score, bool((overlap >= 0.5).any())))
        free[overlap.argmax() if hits[-1][1] else slice(0)] = False
    return hits


if __name__ == "__main__":
    main()
