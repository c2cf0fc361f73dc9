"""python -m benchmarks demo_seeds."""

import json
from pathlib import Path

import pytest

from benchmarks import demo_seeds
from benchmarks.demo_seeds import METRICS, least_lead, seed_steps
from polyptrace import demo

ROOT = Path(__file__).parents[2]

STRONG = {"mAP": (80.0, 75.0, 90.0), "AUROC": (95.0, 90.0, 98.0)}
WEAK = {"mAP": (50.0, 40.0, 60.0), "AUROC": (83.0, 80.0, 92.0)}


def test_the_lead_is_the_smallest_one_in_half_widths_of_the_wider_interval() -> None:
    assert least_lead(STRONG, [WEAK]) == pytest.approx((95 - 83) / 6)
    close = {**WEAK, "AUROC": (91.0, 88.0, 94.0)}
    assert least_lead(STRONG, [WEAK, close]) == pytest.approx((95 - 91) / 4)
    assert least_lead(WEAK, [STRONG]) < 0


def test_another_seed_is_trained_as_the_demo_trains() -> None:
    (_, own), *_ = [step for step in demo.steps(Path("demo")) if step[0] == Path("demo/run/encoder")]
    (output, other), *_ = seed_steps(Path("demo"), 3)
    assert output == Path("demo/run-3/encoder")
    assert other == own.replace("demo/run ", "demo/run-3 ") + " --train.seed 3"


def test_the_readme_quotes_the_stored_seeds() -> None:
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    stored = json.loads((ROOT / "docs/results/demo.json").read_text(encoding="utf-8"))
    assert list(stored["least_lead"]) == [f"seed {seed}" for seed in range(5)]
    assert min(stored["least_lead"].values()) >= 2
    seeds = [stored["rows"][name] for name in stored["least_lead"]]
    low, high = ([f"{f(row[key][0] for row in seeds):.1f}" for key in METRICS] for f in (min, max))
    assert f"an mAP of {low[0]} to {high[0]} and an AUROC of {low[1]} to {high[1]}" in readme
    shown = {"colours only": "colour-grid", "untrained encoder": "untrained", "the same, trained further": "seed 0"}
    for title, name in shown.items():
        cells = [f"{value:.1f} [{low:.1f}–{high:.1f}]" for value, low, high in stored["rows"][name].values()]
        assert f"| {title} | {' | '.join(cells)} |" in readme


@pytest.mark.parametrize(("auroc", "shown"), [(95.0, True), (84.0, False)])
def test_every_seed_must_lead(
    auroc: float, shown: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    last = {**STRONG, "AUROC": (auroc, 80.0, 98.0)}
    rows = {"colour-grid": WEAK, "untrained": WEAK, "ours-4": last}
    monkeypatch.setattr(demo, "run", lambda steps: list(steps))
    monkeypatch.setattr(demo_seeds, "figures", lambda results: rows.get(results.name, STRONG))
    if shown:
        demo_seeds.main([str(tmp_path)])
    else:
        with pytest.raises(SystemExit, match="not larger"):
            demo_seeds.main([str(tmp_path)])
    assert json.loads((tmp_path / "seeds.json").read_text())["least_lead"]["seed 0"] == pytest.approx(2.0)
    assert f"| seed 4 | 80.0 [75.0–90.0] | {auroc:.1f} [80.0–98.0] |" in capsys.readouterr().out
