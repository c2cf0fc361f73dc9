"""The benchmark on real clips: how tracks are cut, and one run over generated clips."""

from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import clips
from polyptrace.core.codec import encode_jpeg
from polyptrace.core.files import read_json
from polyptrace.data import Boxes, Dataset


def test_runs_of_32_frames_are_kept_and_6_dropped_and_a_gap_starts_again() -> None:
    frames = np.array([*range(10, 90), *range(200, 240)])
    boxes = Boxes.of(video="a", frame_index=frames[::-1].copy(), xywh=np.ones((len(frames), 4)), file="a.jpg")
    kept = sorted(boxes.frame_index[clips.in_runs(boxes)].tolist())
    assert kept == [*range(10, 42), *range(48, 80), *range(86, 90), *range(200, 232), 238, 239]


def test_every_clip_is_tested_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(10):
        folder = tmp_path / "clips" / f"clip{number}"
        (folder / "img1").mkdir(parents=True)
        (folder / "gt").mkdir()
        picture = torch.full((3, 96, 96), 25 * number, dtype=torch.uint8)
        for frame in range(1, 76, 2):
            (folder / "img1" / f"{frame:06d}.jpg").write_bytes(encode_jpeg(picture))
        lines = [f"{frame},1,40,40,8,8,1,-1,-1,-1" for frame in range(1, 76)]
        (folder / "gt/gt.txt").write_text("\n".join(lines), "utf-8")
    out = tmp_path / "out"
    clips.main([str(tmp_path / "clips"), "--out", str(out), "--encoder", "colour-grid", "--size", "16"])
    tested = []
    for fold in range(clips.FOLDS):
        test, train = (set(Dataset.open(out / f"fold{fold}" / part).tracklets.polyp) for part in ("test", "train"))
        assert not test & train
        assert len(test | train) == 10  # one polyp per clip
        tested += test
    assert len(tested) == len(set(tested)) == 10
    assert read_json(out / "clips.json")["folds"]["colour-grid"]["mAP"] == [100.0] * 5
    assert "| colour-grid | 100.0 (100.0–100.0) |" in capsys.readouterr().out
