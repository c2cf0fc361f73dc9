"""The examples run, and give what they say."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyptrace.detect import load_detector

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


def test_a_trained_detector_is_saved_as_a_folder_for_detect(tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "detector"
    words = ["coco", str(tiny), "--out", str(out), "--model", "tiny", "--size", "96", "--steps", "3", "--batch", "2"]
    score = main_of("train_detector")([*words, "--test-images", "4"])
    assert 0 <= score <= 1
    (found,) = load_detector(str(out))([np.zeros((96, 112, 3), np.uint8)], [0])
    assert found.shape[1] == 5


def test_average_precision_of_known_hits() -> None:
    """Two true boxes in one image: a hit, a false positive and a hit, by score: (1 + 2/3) / 2."""
    example = runpy.run_path(str(EXAMPLES / "train_detector.py"))
    image = Path(__file__).parents[1] / "docs/pictures/synthetic/alike.jpg"
    truth = np.array([[0.0, 0, 10, 10], [50, 50, 10, 10]])
    found = np.array([[0.0, 0, 10, 10, 0.9], [80, 80, 10, 10, 0.8], [51, 50, 10, 10, 0.7]])
    assert abs(example["ap50"](lambda *_: [found], [(image, truth)]) - (1 + 2 / 3) / 2) < 1e-12


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_every_example_states_its_command(path: Path) -> None:
    assert f"python examples/{path.name}" in path.read_text(encoding="utf-8")
    assert path.stem in Path(__file__).read_text(encoding="utf-8")
