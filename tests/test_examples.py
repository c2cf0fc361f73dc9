"""The examples run, and give what they say."""

import json
import math
import runpy
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import RTDetrImageProcessor, RTDetrV2Config, RTDetrV2ForObjectDetection

from polyptrace.core.codec import encode_jpeg
from polyptrace.core.errors import UserError
from polyptrace.detect import load_detector
from polyptrace.encoders import load_encoder

EXAMPLES = Path(__file__).parents[1] / "examples"


def main_of(name: str) -> Any:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]


def test_the_loss_in_a_loop_of_ones_own_improves_retrieval() -> None:
    before, after = main_of("loss_in_your_own_loop")()
    assert after > 1.5 * before


def test_crops_are_embedded_as_a_whole_and_frame_by_frame() -> None:
    similarity = main_of("embed_your_own_crops")()
    assert similarity.shape == (3, 3)
    assert np.allclose(np.diag(similarity), 1, atol=1e-5)
    assert similarity[0, 1] < 1 - 1e-6


def test_vectors_made_elsewhere_are_evaluated() -> None:
    metrics = main_of("evaluate_your_own_vectors")()
    assert all(1 / 20 < value <= 1 for value in metrics.values())
    assert metrics["HR@1"] <= metrics["HR@5"]
    assert metrics["AUROC"] > 0.9


def test_a_trained_detector_is_saved_as_onnx_for_detect(tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "detector"
    words = ["coco", str(tiny), "--out", str(out), "--size", "96", "--steps", "3", "--batch", "2"]
    score = main_of("train_detector")([*words, "--test-images", "4", "--workers", "1"])
    assert 0 <= score <= 1
    made = json.loads((out / "training.json").read_text())
    assert (made["steps"], made["test images"], made["AP50"]) == (3, 4, score)
    assert {each.name for each in out.iterdir()} == {"training.json", "detector.onnx", "detector.toml"}
    assert str(Path(__file__).parents[1]).encode() not in (out / "detector.onnx").read_bytes()
    (actual,) = load_detector(str(out / "detector.onnx"))([np.zeros((96, 112, 3), np.uint8)], [0])
    assert actual.shape[1] == 5
    with pytest.raises(UserError, match="already exists"):
        main_of("train_detector")(words)


def test_a_pretrained_detector_of_transformers_is_trained_further(tiny: Path, tmp_path: Path) -> None:
    backbone = {"model_type": "rt_detr_resnet", "layer_type": "basic", "depths": [1, 1, 1, 1], "embedding_size": 8}
    backbone |= {"hidden_sizes": [8, 8, 16, 16], "out_features": ["stage2", "stage3", "stage4"]}
    sizes = {"d_model": 32, "encoder_hidden_dim": 32, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "decoder_layers": 2}
    config = RTDetrV2Config(
        backbone_config=backbone, encoder_in_channels=[8, 16, 16], decoder_in_channels=[32] * 3, num_queries=10, **sizes
    )
    RTDetrV2ForObjectDetection(config).save_pretrained(tmp_path / "given")
    RTDetrImageProcessor(size={"height": 96, "width": 96}).save_pretrained(tmp_path / "given")
    words = ["coco", str(tiny), "--model", str(tmp_path / "given"), "--size", "96", "--steps", "2", "--batch", "2"]
    main_of("train_detector")([*words, "--out", str(tmp_path / "out"), "--test-images", "2", "--workers", "0"])
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("given", "out"))
    assert any(not torch.equal(before[name], after[name]) for name in before if before[name].is_floating_point())
    (actual,) = load_detector(str(tmp_path / "out"))([np.zeros((96, 112, 3), np.uint8)], [0])
    assert actual.shape[1] == 5


def test_the_light_detector_starts_from_the_default_encoder_and_is_small() -> None:
    network = runpy.run_path(str(EXAMPLES / "train_detector.py"))["Light"](64)
    encoder = load_encoder("default")
    stem = network.module.fcos.backbone.stages.state_dict()["stem.conv.weight"]
    assert torch.equal(stem, encoder.backbone.state_dict()["stem.conv.weight"])
    assert sum(each.numel() for each in network.module.parameters()) < 3e6


def test_the_onnx_file_finds_the_boxes_that_fcos_finds(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = runpy.run_path(str(EXAMPLES / "train_detector.py"))["Light"](128)
    network.module.fcos.head.classification_head.cls_logits.bias.data.fill_(-2)
    frame = np.random.default_rng(0).integers(0, 256, (128, 128, 3), dtype=np.uint8)
    model = network.module.fcos.eval()
    model.score_thresh, model.nms_thresh, model.detections_per_img = 0.1, 0.3, 1000
    (wanted,) = model([torch.from_numpy(frame).permute(2, 0, 1) / 255])
    frame.flags.writeable = False
    (actual,) = load_detector(network.finish(tmp_path))([frame], [0])
    assert len(actual) == len(wanted["scores"]) > 5
    rows = torch.cat([wanted["boxes"], wanted["scores"][:, None]], 1).detach().numpy()
    corners = np.column_stack([actual[:, :2], actual[:, :2] + actual[:, 2:4], actual[:, 4]])
    corners = corners.clip(0, 128)  # FCOS clips, too
    assert np.abs(corners[:, None] - rows).max(2).min(1).max() < 0.01  # each box; the order of equal scores is open


def test_images_without_a_box_are_those_of_the_same_videos(tmp_path: Path, tiny: Path) -> None:
    """One image of each procedure loses its annotations; only that of the training procedure is an example."""
    shutil.copytree(tiny, tmp_path / "data")
    removed = {}
    for split in ("train", "test"):
        file = tmp_path / f"data/annotations/instances_{split}.json"
        content = json.loads(file.read_text())
        exists = [each for each in content["images"] if (tmp_path / "data/images" / each["file_name"]).is_file()]
        removed[split] = exists[5]["file_name"]
        for name, key in (("images", "id"), ("annotations", "image_id")):
            content[name] = [each for each in content[name] if each[key] != exists[5]["id"]]
        file.write_text(json.dumps(content))
    example = runpy.run_path(str(EXAMPLES / "train_detector.py"))
    words = ["coco", str(tmp_path / "data"), "--out", "unused"]
    folders = [tmp_path / "data"]
    images = example["read_images"](example["parse"]([*words, "--negatives", "0.2"]), folders, "train")
    assert [file.name for file, boxes in images if not len(boxes)] == [removed["train"]]
    assert all(len(boxes) for _, boxes in example["read_images"](example["parse"](words), folders, "train"))


def test_images_are_seen_otherwise_together_with_their_boxes() -> None:
    """A white box in a black image: its pixels are where the box is, mirrored, turned, scaled and moved."""
    example = runpy.run_path(str(EXAMPLES / "train_detector.py"))
    pictures = torch.zeros(40, 3, 96, 96)
    pictures[:, :, 30:50, 20:60] = 1
    boxes = torch.tensor([[20.0, 30, 60, 50], [math.nan] * 4]).repeat(40, 1, 1)
    torch.manual_seed(0)
    views = example["random_views"](40, torch.device("cpu"))
    shown, corners = example["warp"](pictures, boxes, *views)
    assert corners[:, 1].isnan().all()
    wide = 0
    for picture, (left, top, right, bottom) in zip(shown, corners[:, 0].round().int().tolist(), strict=True):
        assert picture[:, top + 1 : bottom - 1, left + 1 : right - 1].min() > 0.9
        picture[:, max(top - 1, 0) : bottom + 1, max(left - 1, 0) : right + 1] = 0
        assert picture.max() < 0.5  # grey around the picture
        wide += right - left > bottom - top
    assert 5 < wide < 35  # some are turned
    assert len(corners[:, 0].unique(dim=0)) == 40


def test_a_box_that_leaves_the_image_is_dropped() -> None:
    example = runpy.run_path(str(EXAMPLES / "train_detector.py"))
    boxes = torch.tensor([[[0.0, 0, 20, 20], [60, 60, 96, 96]]])
    shifted = torch.tensor([[0.25, 0.25]])  # the view moves by 12 of 96 pixels to the right and down
    _, corners = example["warp"](torch.zeros(1, 3, 96, 96), boxes, torch.eye(2)[None], shifted)
    assert corners[0, 0].isnan().all()  # 16 % of it are left
    assert corners[0, 1].tolist() == [48, 48, 84, 84]


def test_pictures_in_other_colours_keep_their_values_in_range() -> None:
    example = runpy.run_path(str(EXAMPLES / "train_detector.py"))
    torch.manual_seed(0)
    pictures = torch.rand(4, 3, 16, 16)
    other = example["recolour"](pictures)
    assert (other.min(), other.max()) >= (0, 0)
    assert other.max() <= 1
    assert 0.02 < (other - pictures).abs().mean() < 0.3


def test_the_loss_of_a_batch_is_that_of_torchvision() -> None:
    """Boxes of all sizes, overlapping ones and a picture without any."""
    example = runpy.run_path(str(EXAMPLES / "train_detector.py"))
    torch.manual_seed(0)
    network = example["Light"](256)
    centre, half = torch.rand(6, 3, 2) * 256, torch.rand(6, 3, 2) ** 2 * 120 + 4
    boxes = torch.cat([centre - half, centre + half], 2).clamp(0, 256)
    boxes[0], boxes[1, 1:], boxes[2, 0] = math.nan, math.nan, torch.tensor([5.0, 5, 250, 250])
    outputs = {
        name: torch.rand(6, len(network.module.anchors), width) * 2
        for name, width in (("cls_logits", 1), ("bbox_regression", 4), ("bbox_ctrness", 1))
    }
    each_one = [rows[~rows[:, 0].isnan()] for rows in boxes]
    targets = [{"boxes": rows, "labels": torch.zeros(len(rows), dtype=torch.long)} for rows in each_one]
    counts = [(256 // stride) ** 2 for stride in example["STRIDES"]]
    losses = network.module.fcos.compute_loss(targets, outputs, [network.module.anchors] * 6, counts)
    positive = example["assign"](network.module.anchors, boxes)[1]
    assert all(part.any() for part in positive.any(0).split(counts))  # every level has boxes to find
    torch.testing.assert_close(example["fcos_loss"](outputs, network.module.anchors, boxes), sum(losses.values()))


def test_images_in_memory_are_decoded_once(tmp_path: Path) -> None:
    example = runpy.run_path(str(EXAMPLES / "train_detector.py"))
    picture = torch.randint(0, 256, (3, 64, 96), dtype=torch.uint8)
    (tmp_path / "box.jpg").write_bytes(encode_jpeg(picture, 95))
    arguments = [(tmp_path / "box.jpg", np.array([[20.0, 10, 30, 20]]))], 48, True
    plain, stored = example["Images"](*arguments), example["Images"](*arguments, in_memory=True)
    first = stored[0]
    assert all(torch.equal(*pair) for pair in zip(plain[0], first, strict=True))
    assert first[1].tolist() == [[10, 13, 25, 23]]  # half as large, below 8 rows of padding
    (tmp_path / "box.jpg").unlink()
    assert all(torch.equal(*pair) for pair in zip(stored[0], first, strict=True))


def test_average_precision_of_known_hits() -> None:
    """Two true boxes in one image: a hit, a false positive and a hit, by score: (1 + 2/3) / 2."""
    example = runpy.run_path(str(EXAMPLES / "train_detector.py"))
    image = Path(__file__).parents[1] / "docs/pictures/synthetic/alike.jpg"
    truth = np.array([[0.0, 0, 10, 10], [50, 50, 10, 10]])
    actual = np.array([[0.0, 0, 10, 10, 0.9], [80, 80, 10, 10, 0.8], [51, 50, 10, 10, 0.7]])
    value, count = example["ap50"](lambda *_: [actual], [(image, truth)])
    assert abs(value - (1 + 2 / 3) / 2) < 1e-12
    assert count == 1
    assert example["matches"](actual, truth[:0]) == [(0.9, False), (0.8, False), (0.7, False)]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_every_example_states_its_command(path: Path) -> None:
    assert f"python examples/{path.name}" in path.read_text(encoding="utf-8")
    assert path.stem in Path(__file__).read_text(encoding="utf-8")
