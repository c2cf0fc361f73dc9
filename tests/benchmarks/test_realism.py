"""python -m benchmarks realism."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.__main__ import main
from benchmarks.realism import (
    MEASURES,
    box_statistics,
    find_recordings,
    measure_recording,
    sharpness,
    spectrum_slope,
    to_lab,
)
from polyptrace.core.errors import UserError
from polyptrace.data import Boxes
from polyptrace.synthetic.colon import band_noise


def test_statistics_of_a_table_made_by_hand() -> None:
    frames = [*range(40), *range(50, 60), *range(55, 60)]
    xywh = [[10, 10, 20, 20]] * 50 + [[60, 0, 10, 10]] * 5
    boxes = Boxes.of(
        video="v",
        frame_index=frames,
        xywh=xywh,
        file=[str(frame) for frame in frames],
        polyp=["a"] * 50 + ["b"] * 5,
        image_width=100,
        image_height=100,
    )
    value = box_statistics(boxes)
    assert value["videos, polyps"] == "1, 2"
    assert value["boxes per polyp"] == "28 (55 boxes)"
    assert value["tracklets per polyp, mean"] == "0.5"
    assert value["whole tracks (>= 30 frames) per polyp"] == "0.5"
    assert value["gap between tracks, frames"] == "10 / 10 / 10"
    assert value["frames with two polyps"] == "10.0 %"
    assert value["boxes at the image's edge"] == "9 %"
    assert value["IoU of neighbouring boxes, median"] == "1.00"


@pytest.mark.parametrize(
    ("rgb", "lab"),
    [
        ((1.0, 1.0, 1.0), (100, 0, 0)),
        ((0.0, 0.0, 0.0), (0, 0, 0)),
        ((1.0, 0.0, 0.0), (53.2, 80.1, 67.2)),
        ((0.5, 0.5, 0.5), (53.4, 0, 0)),
        ((0.0, 0.0, 1.0), (32.3, 79.2, -107.9)),
    ],
)
def test_lab_of_known_colours(rgb: tuple[float, ...], lab: tuple[float, ...]) -> None:
    assert to_lab(torch.tensor(rgb)).tolist() == pytest.approx(lab, abs=0.3)


@pytest.mark.parametrize("slope", [1.0, 1.5])
def test_the_spectrum_of_noise_has_the_slope_it_was_made_with(slope: float) -> None:
    noise = band_noise(np.random.default_rng(0), 256, 256, longest=1000, shortest=1, slope=slope)
    assert spectrum_slope(noise) == pytest.approx(-2 * slope, abs=0.25)


def test_blur_makes_a_picture_less_sharp() -> None:
    noise = band_noise(np.random.default_rng(0), 64, 64, 30, 2, 1.0)
    blurred = torch.nn.functional.avg_pool2d(noise[None, None], 3, 1, 1)[0, 0]
    inside = torch.ones(64, 64, dtype=torch.bool)
    assert sharpness(blurred, inside) < sharpness(noise, inside) - 0.5


def test_recordings_are_folders_or_files_with_a_common_name(tiny: Path, tmp_path: Path) -> None:
    recordings = find_recordings(tiny / "images", most=4)
    assert len(recordings) == 3
    assert all(len(files) == 4 for files in recordings)
    assert len({file.name[:9] for file in recordings[0]}) == 1
    with pytest.raises(UserError, match=r"contains no \.jpg"):
        find_recordings(tmp_path, most=4)


def test_generated_colours_lie_among_those_of_real_clips(tiny: Path, shared: Path) -> None:
    height = 96
    generated, real = (
        np.percentile([measure_recording(files, height) for files in find_recordings(root, most=4)], [10, 50, 90], 0)
        for root in (tiny / "images", shared / "data/ldpolyp")
    )
    for index, name in enumerate(MEASURES[:4]):
        low, _, high = real[:, index]
        margin = 0.5 * (high - low)
        assert low - margin < generated[1, index] < high + margin, name


def test_statistics_of_a_generated_folder_are_printed(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["realism", str(tiny), "--real", str(tiny / "images")])
    text = capsys.readouterr().out
    for words in ("track length", "bag purity at c = 0.5", "REAL-Colon"):
        assert words in text
    precision = re.search(r"colour-grid mAP, test split +([0-9.]+)", text)
    assert precision
    assert 20 < float(precision[1]) < 95  # with three polyps chance is about 40; colour alone must not solve it
    assert text.count("yes") == len(MEASURES)  # compared with itself
