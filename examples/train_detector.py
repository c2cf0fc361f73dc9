"""Train a polyp detector (RT-DETRv2) on boxes in any format that `prepare` reads, and measure its AP50.

    polyptrace synth generated --preset small
    python examples/train_detector.py coco generated --out detector
    polyptrace run procedure.mp4 --detector detector --out case

`--model` is a pretrained RT-DETRv2 or D-FINE (folder or hub id), or `small`: an RT-DETRv2 with 18 layers from scratch,
for generated procedures.
"""

import argparse
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import (
    AutoImageProcessor,
    AutoModelForObjectDetection,
    RTDetrImageProcessor,
    RTDetrV2Config,
    RTDetrV2ForObjectDetection,
)

from polyptrace.core.codec import decode
from polyptrace.data import Boxes
from polyptrace.data.sources import read_source
from polyptrace.data.sources.paths import image_root
from polyptrace.data.tracks import box_iou
from polyptrace.detect.transformers_folder import TransformersFolder

#: Hidden sizes of the backbone and width of the transformer.
SIZES = {"small": ((64, 128, 256, 512), 256), "tiny": ((8, 16, 24, 32), 32)}


def main(words: list[str] | None = None) -> float:
    options = parse(words)
    torch.manual_seed(options.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train, test = (read_images(options, split) for split in (options.train, options.test))
    model, processor = build(options.model, options.size)
    model.to(device).train()
    optimiser = torch.optim.AdamW(model.parameters(), options.lr, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, options.lr, options.steps, pct_start=0.05)
    for step, (pictures, targets) in enumerate(batches(train, options.batch, options.steps, options.seed)):
        inputs = processor(images=pictures, annotations=targets, return_tensors="pt")
        labels = [{key: value.to(device) for key, value in label.items()} for label in inputs["labels"]]
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            loss = model(pixel_values=inputs["pixel_values"].to(device), labels=labels).loss
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimiser.step()
        schedule.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    model.save_pretrained(options.out)
    processor.save_pretrained(options.out)
    value = ap50(TransformersFolder(options.out, device), test[: options.test_images])
    print(f"AP50 on {min(len(test), options.test_images):,} test images: {value:.3f}; saved: {options.out}")
    return value


def parse(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("format", help="format of the boxes: coco, mot, yolo, voc, ...")
    parser.add_argument("path", type=Path, help="folder of the boxes and images")
    parser.add_argument("--train", default="train", help="split for training")
    parser.add_argument("--test", default="test", help="split for testing")
    parser.add_argument("--out", type=Path, required=True, help="folder of the detector")
    parser.add_argument("--model", default="small", help="small, tiny, or a pretrained model")
    parser.add_argument("--size", type=int, default=320, help="side of the network's input in pixels")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--test-images", type=int, default=2000)
    return parser.parse_args(words)


def read_images(options: argparse.Namespace, split: str) -> list[tuple[Path, np.ndarray]]:
    """Each image file with its boxes (n, 4) x, y, w, h."""
    boxes: Boxes = read_source(options.format, options.path, {"split": split})
    root = image_root(options.path)
    rows: dict[str, list[int]] = {}
    for row, file in enumerate(boxes.file):
        rows.setdefault(file, []).append(row)
    return [(root / file, boxes.xywh[mine]) for file, mine in rows.items() if (root / file).is_file()]


def build(name: str, size: int) -> tuple[Any, Any]:
    """The model and its image processor."""
    square = {"height": size, "width": size}
    if name not in SIZES:
        model = AutoModelForObjectDetection.from_pretrained(name, num_labels=1, ignore_mismatched_sizes=True)
        return model, AutoImageProcessor.from_pretrained(name, size=square)
    hidden, width = SIZES[name]
    backbone = {"model_type": "rt_detr_resnet", "depths": [2, 2, 2, 2], "hidden_sizes": hidden, "layer_type": "basic"}
    backbone |= {"embedding_size": hidden[0], "out_features": ["stage2", "stage3", "stage4"]}
    config = RTDetrV2Config(
        backbone_config=backbone,
        encoder_in_channels=list(hidden[1:]),
        encoder_hidden_dim=width,
        encoder_ffn_dim=4 * width,
        d_model=width,
        decoder_in_channels=[width] * 3,
        decoder_ffn_dim=4 * width,
        decoder_layers=3,
        num_queries=100 if name == "small" else 20,
        num_denoising=20,
        num_labels=1,
        id2label={0: "polyp"},
        label2id={"polyp": 0},
        freeze_backbone_batch_norms=False,
    )
    return RTDetrV2ForObjectDetection(config), RTDetrImageProcessor(size=square)


def batches(
    images: list[tuple[Path, np.ndarray]], size: int, steps: int, seed: int
) -> Iterator[tuple[list[Tensor], list[dict[str, Any]]]]:
    """Random images, half of them mirrored, with their boxes as COCO annotations."""
    generator = random.Random(seed)
    for _ in range(steps):
        pictures, targets = [], []
        for number, (file, boxes) in enumerate(generator.choices(images, k=size)):
            picture, boxes = decode(file.read_bytes()), boxes.copy()
            if generator.random() < 0.5:
                picture = picture.flip(2)
                boxes[:, 0] = picture.shape[2] - boxes[:, 0] - boxes[:, 2]
            pictures.append(picture)
            annotations = [{"bbox": box.tolist(), "category_id": 0, "area": float(box[2] * box[3])} for box in boxes]
            targets.append({"image_id": number, "annotations": [a | {"iscrowd": 0} for a in annotations]})
        yield pictures, targets


def ap50(detector: TransformersFolder, images: list[tuple[Path, np.ndarray]]) -> float:
    """Average precision at IoU 0.5: the area under the curve of precision over recall, precision made monotonic."""
    hits: list[tuple[float, bool]] = []
    for file, boxes in images:
        (found,) = detector([decode(file.read_bytes()).permute(1, 2, 0).contiguous().numpy()], [0])
        free = np.ones(len(boxes), bool)
        for *box, score in found[np.argsort(-found[:, 4])].tolist():
            overlap = box_iou(np.tile(box, (len(boxes), 1)), boxes) * free
            best = int(overlap.argmax())
            hits.append((score, bool(overlap[best] >= 0.5)))
            free[best] &= overlap[best] < 0.5
    total = sum(len(boxes) for _, boxes in images)
    right = np.cumsum([hit for _, hit in sorted(hits, key=lambda pair: -pair[0])])
    precision = np.maximum.accumulate((right / np.arange(1, len(right) + 1))[::-1])[::-1]
    return float((precision * np.diff(right, prepend=0)).sum() / total)


if __name__ == "__main__":
    main()
