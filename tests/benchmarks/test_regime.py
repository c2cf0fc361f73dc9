"""python -m benchmarks regime."""

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main


def test_a_candidate_is_measured_and_compared_with_its_targets(tmp_path: Path) -> None:
    words = ["regime", "--preset", "tiny", "--tracklets", "1", "--view-change", "0.25", "--size", "32"]
    main([*words, "--device", "cpu", "--workers", "1", "--out", str(tmp_path)])
    report = json.loads((tmp_path / "regime.json").read_text())
    assert report["options"] == {"view_change": 0.25, "tracklets": 1}
    assert list(report["rows"]) == ["colour-grid"]
    assert 20 < report["rows"]["colour-grid"]["mAP"] <= 100
    assert {"name": "videos, polyps", "here": "3, 9", "REAL-Colon": "27 + 19, 85 + 47"} in report["statistics"]


def test_final_seeds_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["regime", "--seed", "2000", "--out", str(tmp_path)])
    assert "choose 0-99" in capsys.readouterr().err
