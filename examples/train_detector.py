"""Train a polyp detector (RT-DETRv2) on boxes in any format that `prepare` reads, and measure its AP50.

    polyptrace synth generated --preset full --tracklets 10
    python examples/train_detector.py coco generated --batch 64 --seconds 240 --out detector
    polyptrace run procedure.mp4 --detector detector --out case

`--model` is a pretrained RT-DETRv2 or D-FINE (folder or hub id), or one that needs no download:

- `light`: an RT-DETRv2 of 12 MB on the backbone of the default encoder, which was trained on generated procedures;
- `small`: an RT-DETRv2 of 106 MB with 18 layers, from random weights.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler
from transformers import (
    AutoImageProcessor,
    AutoModelForObjectDetection,
    RTDetrImageProcessor,
    RTDetrV2Config,
    RTDetrV2ForObjectDetection,
    TimmBackboneConfig,
)

from polyptrace.core.codec import decode_image
from polyptrace.core.console import progress
from polyptrace.core.device import usable_cores
from polyptrace.core.files import atomic_folder, provenance, refuse_existing, write_json
from polyptrace.data import Boxes
from polyptrace.data.sources import read_source
from polyptrace.data.sources.file_names import image_root
from polyptrace.data.tracks import box_iou
from polyptrace.detect import Detector
from polyptrace.detect.transformers_folder import TransformersFolder
from polyptrace.encoders import load_encoder

Example = tuple[Path, np.ndarray]  # image file, boxes (n, 4) x, y, w, h in pixels
Batch = tuple[Tensor, list[np.ndarray]]
WARM_UP = 0.05  # share of the training in which the learning rate rises
FOR_TEST = 0.12  # share of the time
SAVE_EVERY_S = 20.0
RECORD = "training.json"
NEGATIVES = "share of training images without a box: those of the same videos that the annotations do not name"
#: Channels of the backbone's last three stages, and width of the transformer.
SIZES = {"light": ([56, 152, 368], 64), "small": ([128, 256, 512], 256)}


def main(words: list[str] | None = None) -> float:
    started = time.monotonic()
    options = parse(words)
    refuse_existing(options.out)
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train, test = (read_images(options, split) for split in (options.train, options.test))
    model, processor = build(options.model, options.size)
    end = started + options.seconds

    def save(steps: int, **facts: object) -> None:
        """Writes the detector as it is; a training that is killed leaves the last one."""
        given = {name: str(each) for name, each in vars(options).items()}
        with atomic_folder(options.out, overwrite=True, mark=RECORD) as folder:
            model.save_pretrained(folder)
            processor.save_pretrained(folder)
            write_json(folder / RECORD, {"steps": steps, **facts, "options": given, "made_by": provenance()})

    steps = fit(model.to(device), batches(train, processor, options), options, started, save)
    save(steps)
    chosen = [test[i] for i in np.random.default_rng(0).permutation(len(test))[: options.test_images]]
    value, count = ap50(TransformersFolder(options.out, device), chosen, end)
    save(steps, AP50=value, **{"test images": count})
    print(f"AP50 on {count:,} test images: {value:.3f}; saved: {options.out}")
    return value


def parse(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("format", help="format of the boxes: coco, mot, yolo, voc, ...")
    parser.add_argument("paths", type=Path, nargs="+", metavar="path", help="folders of the boxes and images")
    parser.add_argument("--train", default="train", help="split for training")
    parser.add_argument("--test", default="test", help="split for testing")
    parser.add_argument("--out", type=Path, required=True, help="folder of the detector")
    parser.add_argument("--model", default="light", help="light, small, or a pretrained model")
    parser.add_argument("--size", type=int, default=320, help="side of the network's input in pixels")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=math.inf, help="time for all of it, from reading to AP50")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--workers", type=int, default=usable_cores(), help="processes that decode images")
    parser.add_argument("--negatives", type=float, default=0.0, metavar="SHARE", help=NEGATIVES)
    parser.add_argument("--lr", type=float, default=4e-4)
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


def build(name: str, size: int) -> tuple[Any, Any]:
    """The model and its image processor."""
    square = {"height": size, "width": size}
    if name not in SIZES:
        model = AutoModelForObjectDetection.from_pretrained(name, num_labels=1, ignore_mismatched_sizes=True)
        return model, AutoImageProcessor.from_pretrained(name, size=square)
    channels, width = SIZES[name]
    config = RTDetrV2Config(
        backbone_config=light_backbone() if name == "light" else small_backbone(),
        encoder_in_channels=channels,
        encoder_hidden_dim=width,
        encoder_ffn_dim=4 * width,
        hidden_expansion=0.5 if name == "light" else 1.0,
        d_model=width,
        decoder_in_channels=[width] * 3,
        decoder_ffn_dim=4 * width,
        decoder_layers=3,
        num_queries=50 if name == "light" else 100,
        num_denoising=20,
        num_labels=1,
        id2label={0: "polyp"},
        label2id={"polyp": 0},
        freeze_backbone_batch_norms=False,
    )
    model = RTDetrV2ForObjectDetection(config)
    if name == "small":
        return model, RTDetrImageProcessor(size=square)
    encoder = load_encoder("default")
    weights = {f"_backbone.{key}": value for key, value in encoder.backbone.state_dict().items()}
    model.model.backbone.model.load_state_dict(weights)
    mean, std = encoder.preprocess.mean, encoder.preprocess.std
    return model, RTDetrImageProcessor(size=square, do_normalize=True, image_mean=list(mean), image_std=list(std))


def light_backbone() -> TimmBackboneConfig:
    """The backbone of the default encoder."""
    return TimmBackboneConfig(
        backbone="regnetx_002", features_only=True, use_pretrained_backbone=False, out_indices=[2, 3, 4]
    )


def small_backbone() -> dict[str, Any]:
    """A ResNet of 18 layers."""
    hidden, stages = [64, 128, 256, 512], ["stage2", "stage3", "stage4"]
    kind = {"model_type": "rt_detr_resnet", "layer_type": "basic", "depths": [2, 2, 2, 2]}
    return kind | {"hidden_sizes": hidden, "embedding_size": hidden[0], "out_features": stages}


class Images(Dataset[Example]):
    """Images with their boxes relative to the image, randomly mirrored; decoded where the item is asked for."""

    def __init__(self, images: list[Example]) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, np.ndarray]:
        file, boxes = self.images[index]
        picture = decode_image(file.read_bytes())  # (3, H, W)
        height, width = picture.shape[1:]
        centred = np.concatenate([boxes[:, :2] + boxes[:, 2:] / 2, boxes[:, 2:]], 1) / (width, height, width, height)
        for axis in (0, 1):  # of the boxes: x, y
            if torch.rand(()) < 0.5:
                picture = picture.flip(2 - axis)
                centred[:, axis] = 1 - centred[:, axis]
        return picture, centred.astype(np.float32)


def batches(images: list[Example], processor: Any, options: argparse.Namespace) -> DataLoader[Batch]:
    """Random batches, decoded and resized by worker processes: pixels (B, 3, H, W) and each image's boxes (n, 4)."""

    def collate(items: list[tuple[Tensor, np.ndarray]]) -> Batch:
        pictures, boxes = zip(*items, strict=True)
        return processor(images=list(pictures), return_tensors="pt")["pixel_values"], list(boxes)

    empty = np.array([not len(boxes) for _, boxes in images])
    weights = np.where(empty, options.negatives / max(empty.sum(), 1), (1 - options.negatives) / (~empty).sum())
    return DataLoader(
        Images(images),
        options.batch,
        sampler=WeightedRandomSampler(weights.tolist(), options.steps * options.batch),
        collate_fn=collate,
        num_workers=options.workers,
        multiprocessing_context="fork" if options.workers else None,
        pin_memory=torch.cuda.is_available(),
    )


def fit(
    model: Any, batches: Iterable[Batch], options: argparse.Namespace, started: float, save: Callable[[int], None]
) -> int:
    """Trains until the steps or their share of the seconds are used up; returns the number of steps."""
    optimiser = torch.optim.AdamW(model.train().parameters(), options.lr, weight_decay=1e-4)
    begun = saved = time.monotonic()
    end = started + (1 - FOR_TEST) * options.seconds
    step = 0
    with progress("training", None if end < math.inf else options.steps * options.batch, "images") as bar:
        for pixels, boxes in batches:
            now = time.monotonic()
            done = max(step / options.steps, (now - begun) / max(end - begun, 1e-9))
            if done >= 1:
                break
            if now - saved > SAVE_EVERY_S:
                save(step)
                saved = now
            for group in optimiser.param_groups:
                group["lr"] = options.lr * min(done / WARM_UP, 1) * (1 + math.cos(math.pi * done)) / 2
            arrays = [torch.from_numpy(each).to(model.device) for each in boxes]
            labels = [{"boxes": each, "class_labels": each.new_zeros(len(each), dtype=torch.long)} for each in arrays]
            loss = model(pixel_values=pixels.to(model.device, non_blocking=True), labels=labels).loss
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
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
