"""A run that is killed and resumed gives the same result as an uninterrupted one."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests.killing import run_script


@pytest.fixture(scope="module")
def runs(make_dataset: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same training, once without interruption and once with five kills."""
    folder = tmp_path_factory.mktemp("killed")
    data = make_dataset(folder / "data", [[3, 2], [2, 2]], frames=16)
    assert run_script("tests.train.killed", data, folder, 5) == [5]
    return {name: folder / name for name in ("whole", "killed")}


def test_the_weights_are_the_same_to_the_bit(runs: dict[str, Path]) -> None:
    whole, killed = (load_file(runs[name] / "encoder" / "model.safetensors") for name in ("whole", "killed"))
    assert set(whole) == set(killed)
    assert all(whole[name].numpy().tobytes() == killed[name].numpy().tobytes() for name in whole)


def test_each_step_is_in_the_log_once(runs: dict[str, Path]) -> None:
    lines = {}
    for name, run in runs.items():
        lines[name] = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        for line in lines[name]:
            assert {line.pop(key) > 0 for key in ("time", "frames_per_second", "memory_gib")} == {True}
    assert lines["killed"] == lines["whole"]
    assert [line["step"] for line in lines["killed"]] == list(range(1, 31))


def test_the_last_two_checkpoints_are_kept_and_the_optimiser_is_in_them(runs: dict[str, Path]) -> None:
    names = sorted(path.name for path in (runs["killed"] / "checkpoints").iterdir())
    assert names == ["step-00000028.safetensors", "step-00000030.safetensors"]
    whole, killed = (load_file(runs[name] / "checkpoints" / names[-1]) for name in ("whole", "killed"))
    assert any(name.startswith("optimiser.") for name in whole)
    assert all(whole[name].numpy().tobytes() == killed[name].numpy().tobytes() for name in whole)


def test_every_start_is_recorded(runs: dict[str, Path]) -> None:
    starts = json.loads((runs["killed"] / "environment.json").read_text())["starts"]
    assert len(starts) == 6
    assert [s["step"] for s in starts] == sorted(s["step"] for s in starts)
    assert starts[-1]["step"] > 0
