"""The search for learning rates: which one is chosen, and for whom."""

import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from polyptrace.compare.rates import choose_rates, read_rates, search_trials
from polyptrace.compare.rows import ROWS, variant
from polyptrace.compare.trial import Datasets, Shared, Trial, rate_setting
from polyptrace.core.errors import UserError
from polyptrace.core.files import write_json
from polyptrace.evaluate import Results
from polyptrace.evaluate.results import Method, Metric, Task

RATES = (1e-5, 3e-5, 1e-4)


@pytest.fixture
def trials(make_dataset: Callable[..., Path], tmp_path: Path) -> list[Trial]:
    data = Datasets(make_dataset(tmp_path / "train", [[2, 2]]), (make_dataset(tmp_path / "test", [[2, 2]]),))
    rows = [ROWS[name] for name in ("colour-grid", "untrained", "sup", "ours")]
    return search_trials(rows, RATES, data, Shared(tmp_path / "out", frames=480))


def measure(trial: Trial, value: float) -> None:
    """Writes results with that mAP."""
    figure = Metric(value, value, value, 4, "queries")
    Results(
        Method("x"),
        {"retrieval": Task("track", "tracks", metrics={"map": figure})},
        {"retrieval/draws/map": np.zeros(9)},
    ).save(trial.results)


def test_only_what_is_trained_is_searched_and_each_with_every_rate(trials: list[Trial]) -> None:
    assert [trial.key for trial in trials] == [
        f"search/{name}/lr{rate:g}" for name in ("sup", "ours") for rate in RATES
    ]
    assert [trial.config.optimiser.lr for trial in trials] == [*RATES, *RATES]
    assert {trial.config.train.frames for trial in trials} == {480}


def test_the_rate_with_the_best_map_is_chosen_for_each_row_by_itself(trials: list[Trial], tmp_path: Path) -> None:
    for trial, value in zip(trials, (0.1, 0.5, 0.3, 0.2, 0.2, 0.9), strict=True):
        measure(trial, value)
    content = choose_rates(trials)
    write_json(tmp_path / "rates.json", asdict(content))
    assert read_rates(tmp_path / "rates.json") == {"sup": 3e-5, "ours": 1e-4}
    assert content.rows["sup"].tried == {"1e-05": 0.1, "3e-05": 0.5, "0.0001": 0.3}
    assert (content.rows["sup"].at_the_end, content.rows["ours"].at_the_end) == (False, True)


def test_a_rate_that_failed_is_not_chosen_and_a_search_that_has_not_ended_chooses_nothing(trials: list[Trial]) -> None:
    for trial in trials[1:]:
        measure(trial, 0.5)
    with pytest.raises(UserError, match=r"not finished -> first run search/sup/lr1e-05$"):
        choose_rates(trials)
    trials[0].folder.mkdir(parents=True)
    (trials[0].folder / "error.txt").write_text("the loss is not finite -> lower the rate\n\nmore\n")
    content = choose_rates(trials)
    assert content.rows["sup"].tried["1e-05"] is None
    assert content.rows["sup"].rate == 3e-5
    assert content.failed == {"search/sup/lr1e-05": "the loss is not finite -> lower the rate"}


def test_a_variant_has_the_rate_of_its_method_and_what_is_not_trained_has_none() -> None:
    rates = {"ours": 3e-5, "sup": 1e-4}
    assert rate_setting(variant("bag-9", "K = 9"), rates) == {"optimiser": {"lr": 3e-5}}
    assert rate_setting(ROWS["sup"], rates) == {"optimiser": {"lr": 1e-4}}
    assert rate_setting(ROWS["untrained"], rates) == rate_setting(ROWS["colour-grid"], rates) == {}
    assert rate_setting(ROWS["mve"], rates) == {}


def test_another_file_is_not_taken_for_rates(tmp_path: Path) -> None:
    path, row = tmp_path / "rates.json", '{"tried": {}, "at_the_end": false, "rate": %s}'
    for text, problem in (
        ("[1, 2]", "is not an object"),
        ('{"criterion": "mAP", "rows": {"ours": {"rate": 1}}}', "rows.ours.tried: is missing"),
        ('{"criterion": "mAP", "rows": {"ours": %s}}' % (row % "-1"), "rows.ours: rate: -1.0 is not a positive"),
        ('{"criterion": "mAP", "rows": {"ours": %s}}' % (row % '"x"'), "rows.ours.rate: 'x' is not a number"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=re.escape(problem)):
            read_rates(path)


def test_the_published_rates_can_be_read() -> None:
    rates = read_rates(Path(__file__).parents[2] / "docs/results/rates.json")
    assert rates["ours"] == 1e-4
