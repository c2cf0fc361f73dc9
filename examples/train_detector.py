"""Train a polyp detector on boxes in any format that `prepare` reads, and measure its AP50.

    polyptrace synth generated --preset full --tracklets 10
    python examples/train_detector.py coco generated --batch 64 --seconds 240 --out detector
    polyptrace run procedure.mp4 --detector detector/detector.onnx --out case

`--model` is one of:

- `light`: FCOS of torchvision on the backbone of the default encoder, 10 MB, saved as ONNX; needs no download;
- a pretrained RT-DETRv2 or D-FINE of transformers (folder or hub id), saved as a folder for `--detector`. These models
  are accurate, but from random weights they learn nothing in a few minutes.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import timm
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.fcos import FCOS, FCOSHead
from torchvision.models.detection.image_list import ImageList
from torchvision.ops import FeaturePyramidNetwork, box_convert
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
from polyptrace.detect.onnx_file import resize
from polyptrace.embed.export import remove_traces
from polyptrace.encoders import load_encoder

Example = tuple[Path, np.ndarray]  # image file, boxes (n, 4) x, y, w, h in pixels
Item = tuple[Tensor, Tensor]  # picture (3, H, W) uint8, boxes (n, 4) left, top, right, bottom in its pixels
Batch = tuple[Tensor, list[Tensor]]  # pictures (B, 3, h, w), each one's boxes as the network takes them
WARM_UP = 0.05  # share of the training in which the learning rate rises
FOR_TEST = 0.12  # share of the time
SAVE_EVERY_S = 20.0
RECORD, ONNX, WEIGHTS = "training.json", "detector.onnx", "weights.safetensors"
#: Of the ONNX file; polyps rarely overlap, so that of two overlapping boxes the weaker one is usually wrong.
DECLARATION = 'layout = "yolo"\noverlap = 0.3\n'
NEGATIVES = "share of training images without a box: those of the same videos that the annotations do not name"


class Network(Protocol):
    """A network with its loss, and the form in which it is saved."""

    module: nn.Module
    lr: float

    def prepare(self, items: list[Item]) -> Batch: ...
    def loss(self, pictures: Tensor, boxes: list[Tensor]) -> Tensor: ...
    def save(self, folder: Path) -> None: ...
    def finish(self, folder: Path) -> str: ...  # what is written at the end only; returns the value of --detector


def main(words: list[str] | None = None) -> float:
    started = time.monotonic()
    options = parse(words)
    refuse_existing(options.out)
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    train, test = (read_images(options, split) for split in (options.train, options.test))
    network: Network = Light(options.size) if options.model == "light" else Pretrained(options.model, options.size)
    network.module.to("cuda" if torch.cuda.is_available() else "cpu")
    end = started + options.seconds
    given = {name: str(each) for name, each in vars(options).items()}

    def save(steps: int) -> None:
        """Writes the detector as it is; a training that is killed leaves the last one."""
        with atomic_folder(options.out, overwrite=True, mark=RECORD) as folder:
            network.save(folder)
            write_json(folder / RECORD, {"steps": steps, "options": given, "made_by": provenance()})

    steps = fit(network, batches(train, network, options), options, started, save)
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
    parser.add_argument("--out", type=Path, required=True, help="folder of the detector")
    parser.add_argument("--model", default="light", help="light, or a pretrained model")
    parser.add_argument("--size", type=int, default=256, help="side of the network's input in pixels")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=math.inf, help="time for all of it, from reading to AP50")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--workers", type=int, default=usable_cores(), help="processes that decode images")
    parser.add_argument("--negatives", type=float, default=0.0, metavar="SHARE", help=NEGATIVES)
    parser.add_argument("--lr", type=float, help="highest learning rate; by default that of the model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--test-images", type=int, default=2000)
    return parser.parse_args(words)


def read_images(options: argparse.Namespace, split: str) -> list[Example]:
    """Each image file with its boxes (n, 4) x, y, w, h; with --negatives also those without a box."""
    images: list[Example] = []
    for path in options.paths:
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
    """FCOS on the backbone of the default encoder; pictures are letterboxed."""

    lr = 1e-3

    def __init__(self, size: int) -> None:
        self.size, preprocess = size, load_encoder("default").preprocess
        width = Pyramid.out_channels
        self.module = FCOS(
            Pyramid(),
            num_classes=1,
            min_size=size,
            max_size=size,
            image_mean=list(preprocess.mean),
            image_std=list(preprocess.std),
            anchor_generator=AnchorGenerator(((8,), (16,), (32,)), ((1.0,),) * 3),
            head=FCOSHead(width, num_anchors=1, num_classes=1, num_convs=2),
            _skip_resize=True,
        )

    def prepare(self, items: list[Item]) -> Batch:
        pictures, boxes = [], []
        for picture, corners in items:
            resized, scale, shift = resize(picture, self.size, self.size, letterbox=True)
            pictures.append(resized)
            boxes.append(corners * scale + shift)
        return torch.stack(pictures), boxes

    def loss(self, pictures: Tensor, boxes: list[Tensor]) -> Tensor:
        targets = [{"boxes": each, "labels": each.new_zeros(len(each), dtype=torch.long)} for each in boxes]
        losses: dict[str, Tensor] = self.module(list(pictures.float() / 255), targets)
        return torch.stack(list(losses.values())).sum()

    def save(self, folder: Path) -> None:
        save_file({name: value.contiguous() for name, value in self.module.state_dict().items()}, folder / WEIGHTS)

    def finish(self, folder: Path) -> str:
        """Writes the network as ONNX, and how `detect` reads it."""
        graph = FlatFCOS(self.module.cpu().eval(), self.size).eval()
        export_onnx(graph, torch.rand(2, 3, self.size, self.size), folder / ONNX)
        (folder / ONNX).with_suffix(".toml").write_text(DECLARATION, encoding="utf-8")
        (folder / WEIGHTS).unlink(missing_ok=True)
        return str(folder / ONNX)


class FlatFCOS(nn.Module):
    """FCOS with one output, which `detect` knows as layout `yolo`: (N, 5, A) centre x, y, width, height, score."""

    def __init__(self, fcos: FCOS, size: int) -> None:
        super().__init__()
        self.fcos = fcos
        maps = [torch.zeros(1, 1, size // stride, size // stride) for stride in (8, 16, 32)]
        shapes = ImageList(torch.zeros(1, 3, size, size), [(size, size)])
        self.register_buffer("anchors", fcos.anchor_generator(shapes, maps)[0])
        for name in ("mean", "std"):
            self.register_buffer(name, torch.tensor(getattr(fcos.transform, f"image_{name}"))[:, None, None])

    def forward(self, pictures: Tensor) -> Tensor:
        features = self.fcos.backbone((pictures - self.mean) / self.std)
        outputs = self.fcos.head(list(features.values()))
        scores = (outputs["cls_logits"].sigmoid() * outputs["bbox_ctrness"].sigmoid()).sqrt()
        corners = self.fcos.box_coder.decode(outputs["bbox_regression"], self.anchors)
        return torch.cat([box_convert(corners, "xyxy", "cxcywh"), scores], 2).mT


def export_onnx(module: nn.Module, pictures: Tensor, path: Path) -> None:
    """Writes a network for any number of pictures."""
    import onnx

    names = {"input_names": ["pictures"], "output_names": ["boxes"]}
    program = torch.onnx.export(
        module, (pictures,), dynamo=True, external_data=False, verbose=False, dynamic_shapes=({0: "N"},), **names
    )
    assert program is not None
    model = program.model_proto
    remove_traces(model)
    onnx.save(model, path)


class Pretrained:
    """An object detector of transformers; pictures are stretched."""

    lr = 1e-4

    def __init__(self, name: str, size: int) -> None:
        square = {"height": size, "width": size}
        self.module: Any = AutoModelForObjectDetection.from_pretrained(name, num_labels=1, ignore_mismatched_sizes=True)
        self.processor: Any = AutoImageProcessor.from_pretrained(name, size=square)

    def prepare(self, items: list[Item]) -> Batch:
        pictures = self.processor(images=[picture for picture, _ in items], return_tensors="pt")["pixel_values"]
        return pictures, [
            box_convert(corners, "xyxy", "cxcywh") / torch.tensor([*picture.shape[:0:-1]] * 2)
            for picture, corners in items
        ]

    def loss(self, pictures: Tensor, boxes: list[Tensor]) -> Tensor:
        labels = [{"boxes": each, "class_labels": each.new_zeros(len(each), dtype=torch.long)} for each in boxes]
        value: Tensor = self.module(pixel_values=pictures, labels=labels).loss
        return value

    def save(self, folder: Path) -> None:
        self.module.save_pretrained(folder)
        self.processor.save_pretrained(folder)

    def finish(self, folder: Path) -> str:
        return str(folder)


class Images(Dataset[Item]):
    """Images with their boxes, randomly mirrored; decoded where the item is asked for."""

    def __init__(self, images: list[Example]) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Item:
        file, boxes = self.images[index]
        picture = decode_image(file.read_bytes())  # (3, H, W)
        corners = box_convert(torch.from_numpy(boxes).float(), "xywh", "xyxy")
        for axis in (0, 1):  # x, y
            if torch.rand(()) < 0.5:
                picture = picture.flip(2 - axis)
                corners[:, [axis, axis + 2]] = picture.shape[2 - axis] - corners[:, [axis + 2, axis]]
        return picture, corners


def batches(images: list[Example], network: Network, options: argparse.Namespace) -> DataLoader[Batch]:
    """Random batches, decoded and resized by worker processes."""
    empty = np.array([not len(boxes) for _, boxes in images])
    weights = np.where(empty, options.negatives / max(empty.sum(), 1), (1 - options.negatives) / (~empty).sum())
    return DataLoader(
        Images(images),
        options.batch,
        sampler=WeightedRandomSampler(weights.tolist(), options.steps * options.batch),
        collate_fn=network.prepare,
        num_workers=options.workers,
        multiprocessing_context="fork" if options.workers else None,
        pin_memory=torch.cuda.is_available(),
    )


def fit(
    network: Network, batches: Iterable[Batch], options: argparse.Namespace, started: float, save: Callable[[int], None]
) -> int:
    """Trains until the steps or their share of the seconds are used up; returns the number of steps."""
    highest = options.lr or network.lr
    optimiser = torch.optim.AdamW(network.module.train().parameters(), highest, weight_decay=1e-4)
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
            on_device = [each.to(device, non_blocking=True) for each in (pictures, *boxes)]
            loss = network.loss(on_device[0], on_device[1:])
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.module.parameters(), 1.0)
            optimiser.step()
            step += 1
            bar.say(f"step {step}, {done:.0%} done, loss {loss.item():.2f}")
            bar.advance(len(boxes))
    return step


def ap50(detector: Detector, images: list[Example], end: float = math.inf) -> tuple[float, int]:
    """AP50 of a detector on images, and on how many of them, until a time of `time.monotonic`."""
    hits: list[tuple[float, bool]] = []
    total = count = 0
    for begin in range(0, len(images), 32):
        if count and time.monotonic() > end:
            break
        part = images[begin : begin + 32]
        frames = [decode_image(file.read_bytes()).permute(1, 2, 0).contiguous().numpy() for file, _ in part]
        for (_, boxes), found in zip(part, detector(frames, list(range(len(part)))), strict=True):
            hits += matches(found, boxes)
            total += len(boxes)
        count += len(part)
    return average_precision(hits, total), count


def average_precision(hits: list[tuple[float, bool]], total: int) -> float:
    """The area under the curve of precision over recall, precision made monotonic; `total`: number of true boxes."""
    right = np.cumsum([hit for _, hit in sorted(hits, key=lambda pair: -pair[0])])
    precision = np.maximum.accumulate((right / np.arange(1, len(right) + 1))[::-1])[::-1]
    return float((precision * np.diff(right, prepend=0)).sum() / total)


def matches(found: np.ndarray, boxes: np.ndarray) -> list[tuple[float, bool]]:
    """Score of each box found in an image, and whether it is the first one that overlaps a true box (IoU 0.5)."""
    free, hits = np.ones(len(boxes), bool), []
    for *box, score in found[np.argsort(-found[:, 4])].tolist():
        overlap = box_iou(np.tile(box, (len(boxes), 1)), boxes) * free
        hits.append((score, bool((overlap >= 0.5).any())))
        free[overlap.argmax() if hits[-1][1] else slice(0)] = False
    return hits


if __name__ == "__main__":
    main()
