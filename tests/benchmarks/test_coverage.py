"""python -m benchmarks coverage: the simulation, and its numbers on the page of the evaluation."""

import json
from pathlib import Path

import pytest

from benchmarks.coverage import SCENARIOS, Scenario, simulate, unequal_seeds

ROOT = Path(__file__).parents[2]
STORED = json.loads((ROOT / "benchmarks/results/coverage.json").read_text(encoding="utf-8"))


def test_the_page_has_the_stored_simulations() -> None:
    page = (ROOT / "docs/evaluation.md").read_text(encoding="utf-8")
    assert len(STORED["details"]) == 1 + 2 * len(SCENARIOS)
    assert all(f"| {' | '.join(line)} |" in page for line in STORED["details"])
    values = [f"{row['ours']:.1f}" for row in STORED["rows"]]  # four metrics of each line
    for line in range(0, 16, 4):
        name = STORED["rows"][line]["what"].removeprefix("coverage of mAP, ")
        assert f"| {name} | {' | '.join(values[line : line + 4])} |" in page
    of_five_and = {row["what"].removeprefix("type I error, "): f"{row['ours']:.1f}" for row in STORED["rows"][16:]}
    for name in ("seeds dominate", "seeds and polyps"):
        three, one = (of_five_and[f"{name}, 5 and {seeds} seeds"] for seeds in (3, 1))
        assert f"| {name} | {three} | {one} |" in page


def test_few_seeds_need_welch_satterthwaite_and_correlated_polyps_need_procedures() -> None:
    by_procedure, cluster_degrees, *_ = simulate(Scenario("", seed=2.0), seeds=3, simulations=200)
    assert by_procedure == pytest.approx(0.05, abs=0.04)
    assert cluster_degrees > by_procedure + 0.03
    by_procedure, _, by_polyp, *_ = simulate(Scenario("", seed=0.05, correlation=0.4), seeds=3, simulations=200)
    assert by_procedure == pytest.approx(0.05, abs=0.04)
    assert by_polyp > by_procedure + 0.03


def test_a_row_with_a_single_seed_is_tested_as_one_trained_model() -> None:
    assert unequal_seeds(Scenario("", seed=2.0), (5, 3), 200) == pytest.approx(0.05, abs=0.04)
    assert unequal_seeds(Scenario("", seed=2.0), (5, 1), 200) > 0.2
