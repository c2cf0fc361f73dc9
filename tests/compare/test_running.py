"""Running trials: what is done is skipped, what fails does not stop the others."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Barrier, Event

import pytest

from polyptrace.compare import ROWS, Data, Given, Trial, make_trial, run_trials
from polyptrace.core.errors import UserError
from polyptrace.core.files import read_json, write_json


@pytest.fixture
def data(make_dataset: Callable[..., Path], tmp_path: Path) -> Data:
    return Data(make_dataset(tmp_path / "train", [[2, 2]]), (make_dataset(tmp_path / "test", [[2, 2]], seed=1),))


@dataclass
class Commands:
    """Stands for the commands: writes what each would make, fails or is killed where it is told to."""

    fails: tuple[str, ...] = ()
    killed: tuple[str, ...] = ()
    ran: list[str] = field(default_factory=list)

    def __call__(self, words: Sequence[str], folder: Path) -> None:
        name = f"{folder.parent.name}/{words[0]}"
        if name in self.killed:
            raise KeyboardInterrupt
        if name in self.fails:
            raise UserError(f"{name}: too little of it -> give more")
        self.ran.append(name)
        out = Path(words[list(words).index("--out") + 1])
        made = {"train": "encoder/model.safetensors", "embed": "embeddings.parquet", "evaluate": "results.json"}
        (out / made[words[0]]).parent.mkdir(parents=True, exist_ok=True)
        (out / made[words[0]]).touch()


def trials(data: Data, out: Path, **settings: str) -> list[Trial]:
    given = Given(out, {name.replace("__", "."): value for name, value in settings.items()})
    return [make_trial(ROWS[name], 0, f"rows/{name}/seed0", data, given) for name in ("colour-grid", "mve", "ours")]


def test_a_row_that_fails_is_written_down_and_the_others_go_on(data: Data, tmp_path: Path) -> None:
    commands, out = Commands(fails=("mve/embed",)), tmp_path / "out"
    (failure,) = run_trials(trials(data, out), commands)
    assert failure.key == "rows/mve/seed0"
    assert "too little" in failure.message
    assert failure.file.read_text().startswith("mve/embed: too little of it -> give more\n")
    assert "polyptrace embed" in failure.file.read_text()
    assert commands.ran[-3:] == ["ours/train", "ours/embed", "ours/evaluate"]

    again = Commands()
    assert run_trials(trials(data, out), again) == []
    assert again.ran == ["mve/embed", "mve/evaluate"]
    assert not failure.file.exists()


def test_several_rows_at_a_time_end_as_one_after_the_other(data: Data, tmp_path: Path) -> None:
    commands, together = Commands(fails=("colour-grid/embed", "ours/train")), Barrier(3, timeout=20)

    def execute(words: Sequence[str], folder: Path) -> None:
        if not (folder / "met").exists():  # none goes on before all three have begun
            (folder / "met").touch()
            together.wait()
        commands(words, folder)

    failures = run_trials(trials(data, tmp_path / "out"), execute, at_once=3)
    assert [failure.key for failure in failures] == ["rows/colour-grid/seed0", "rows/ours/seed0"]
    assert commands.ran == ["mve/train", "mve/embed", "mve/evaluate"]


def test_after_ctrl_c_no_row_begins_another_command(data: Data, tmp_path: Path) -> None:
    commands, together, interrupted = Commands(), Barrier(2, timeout=20), Event()

    def execute(words: Sequence[str], folder: Path) -> None:
        together.wait()  # two rows at a time: colour-grid has begun to embed, mve to train
        if words[0] == "train":
            interrupted.set()
            raise KeyboardInterrupt
        assert interrupted.wait(20)
        time.sleep(0.1)  # ends in peace, a moment later
        commands(words, folder)

    with pytest.raises(KeyboardInterrupt):
        run_trials(trials(data, tmp_path / "out"), execute, at_once=2)
    assert commands.ran == ["colour-grid/embed"]
    assert not list((tmp_path / "out").rglob("error.txt"))


def test_a_row_goes_on_where_a_kill_stopped_it(data: Data, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        run_trials(trials(data, out), Commands(killed=("ours/embed",)))
    left = out / "rows/ours/seed0/.embeddings.x.partial"
    left.mkdir()
    again = Commands()
    assert run_trials(trials(data, out), again) == []
    assert again.ran == ["ours/embed", "ours/evaluate"]
    assert not left.exists()


def test_an_unexpected_error_keeps_its_traceback(data: Data, tmp_path: Path) -> None:
    def broken(_words: Sequence[str], _folder: Path) -> None:
        raise ZeroDivisionError("by zero")

    failures = run_trials(trials(data, tmp_path / "out"), broken)
    assert [failure.message for failure in failures] == ["ZeroDivisionError: by zero"] * 3
    assert "Traceback" in failures[0].file.read_text()


def test_a_command_that_makes_nothing_is_a_failure(data: Data, tmp_path: Path) -> None:
    failures = run_trials(trials(data, tmp_path / "out"), lambda _words, _folder: None)
    assert len(failures) == 3
    assert "ended without" in failures[0].message


def test_weights_of_finished_rows_are_removed_and_not_made_again(data: Data, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run_trials(trials(data, out), Commands(), keep="vectors") == []
    assert not list(out.rglob("encoder"))
    assert len(list(out.rglob("embeddings.parquet"))) == 3
    (out / "rows/ours/seed0/results/results.json").unlink()
    again = Commands()
    assert run_trials(trials(data, out), again, keep="vectors") == []
    assert again.ran == ["ours/evaluate"]


def test_a_row_that_was_made_with_other_settings_is_not_taken_for_this_one(data: Data, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_trials(trials(data, out), Commands())
    failures = run_trials(trials(data, out, optimiser__lr="0.5"), Commands())
    assert {failure.key for failure in failures} == {
        "rows/mve/seed0",
        "rows/ours/seed0",
    }  # nothing is trained in the other
    assert "optimiser.lr: 1e-05 -> 0.5" in failures[-1].message
    assert run_trials(trials(data, out, train__device="cpu"), Commands()) == []


def test_a_row_that_was_measured_on_other_crops_is_not_taken_for_this_one(data: Data, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_trials(trials(data, out), Commands())
    info = read_json(data.tests[0] / "dataset.json")
    write_json(data.tests[0] / "dataset.json", {**info, "settings": {"crops": {"scale": 1.5, "workers": 3}}})
    assert len(run_trials(trials(data, out), Commands())) == 3


def test_a_row_says_what_it_is_and_how_long_it_took(data: Data, tmp_path: Path) -> None:
    (trial,) = [t for t in trials(data, tmp_path / "out") if t.row.name == "ours"]
    run_trials([trial], Commands())
    record = read_json(trial.folder / "row.json")
    assert record["commands"] == [step.line for step in trial.steps]
    assert list(record["seconds"]) == record["commands"]
    assert record["recipe"]["supervision.tau_max"] == 12
