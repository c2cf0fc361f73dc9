"""Running trials: completed steps are skipped, and a failure does not stop the other rows."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Barrier, Event

import pytest

from polyptrace.compare import runner as module
from polyptrace.compare.rows import ROWS
from polyptrace.compare.runner import Keep, begin_trial, load_trial, run_trial, run_trials, with_starts
from polyptrace.compare.trial import Datasets, Shared, Trial, make_trial
from polyptrace.config import Settings
from polyptrace.core.errors import UserError
from polyptrace.core.files import read_json, write_json


@pytest.fixture
def data(make_dataset: Callable[..., Path], tmp_path: Path) -> Datasets:
    return Datasets(make_dataset(tmp_path / "train", [[2, 2]]), (make_dataset(tmp_path / "test", [[2, 2]], seed=1),))


#: Settings of all rows that a row records.
SETTINGS: dict[str, Settings] = {"ours": {"loss": {"frame_weight": 2.0}}, "frozen": {"encoder": {"backbone": "x"}}}


@dataclass
class Stages:
    """Replaces train, embed and evaluate: writes their outputs, and fails or is interrupted on request."""

    fails: tuple[str, ...] = ()
    interrupted: tuple[str, ...] = ()
    ran: list[str] = field(default_factory=list)

    def run(self, name: str, output: Path) -> None:
        if name in self.interrupted:
            raise KeyboardInterrupt
        if name in self.fails:
            raise UserError(f"{name}: too few -> give more")
        self.ran.append(name)
        output.parent.mkdir(parents=True, exist_ok=True)
        output.touch() if output.suffix else output.mkdir()


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> Stages:
    """Replaces the functions of the steps."""
    stages = Stages()

    def train(_config: object, _data: object, out: Path, _init_from: str | None) -> None:
        stages.run(f"{out.parents[1].name}/train", out / "encoder")

    def embed_files(_encoder: str, _data: Path, out: Path, *_: object) -> None:
        stages.run(f"{out.parents[2].name}/embed", out / "embeddings.parquet")

    class Measured:
        def described(self, **_: object) -> "Measured":
            return self

        def save(self, out: Path) -> None:
            stages.run(f"{out.parents[1].name}/evaluate", out / "results.json")

    monkeypatch.setattr("polyptrace.compare.trial.train", train)
    monkeypatch.setattr("polyptrace.compare.trial.embed_files", embed_files)
    monkeypatch.setattr("polyptrace.compare.trial.evaluate_files", lambda *_, **__: Measured())
    return stages


def trials(
    data: Datasets, out: Path, settings: Settings | None = None, rows: tuple[str, ...] = ("colour-grid", "sup", "ours")
) -> list[Trial]:
    shared = Shared(out, settings or {})
    return [make_trial(ROWS[name], 0, f"rows/{name}/seed0", data, shared) for name in rows]


def test_a_failure_is_recorded_and_the_other_rows_continue(data: Datasets, tmp_path: Path, stages: Stages) -> None:
    out = tmp_path / "out"
    stages.fails = ("sup/embed",)
    (failure,) = run_trials(trials(data, out))
    assert failure.key == "rows/sup/seed0"
    assert "too few" in failure.message
    assert failure.file.read_text().startswith("sup/embed: too few -> give more\n")
    assert "polyptrace embed" in failure.file.read_text()
    assert stages.ran[-3:] == ["ours/train", "ours/embed", "ours/evaluate"]

    stages.fails, stages.ran = (), []
    assert run_trials(trials(data, out)) == []
    assert stages.ran == ["sup/embed", "sup/evaluate"]
    assert not failure.file.exists()


def test_several_rows_at_a_time_end_as_one_after_the_other(data: Datasets, tmp_path: Path, stages: Stages) -> None:
    stages.fails, together = ("colour-grid/embed", "ours/train"), Barrier(3, timeout=20)

    def run(trial: Trial, keep: Keep) -> None:
        together.wait()  # until all three have begun
        run_trial(trial, keep)

    failures = run_trials(trials(data, tmp_path / "out"), run=run, at_once=3)
    assert [failure.key for failure in failures] == ["rows/colour-grid/seed0", "rows/ours/seed0"]
    assert stages.ran == ["sup/train", "sup/embed", "sup/evaluate"]


def test_after_ctrl_c_no_other_row_begins(data: Datasets, tmp_path: Path) -> None:
    together, interrupted, ran = Barrier(2, timeout=20), Event(), []

    def run(trial: Trial, _: Keep) -> None:
        together.wait()  # two of the three rows
        if trial.row.name == "sup":
            interrupted.set()
            raise KeyboardInterrupt
        assert interrupted.wait(20)
        time.sleep(0.1)  # completes a moment later
        ran.append(trial.row.name)

    with pytest.raises(KeyboardInterrupt):
        run_trials(trials(data, tmp_path / "out"), run=run, at_once=2)
    assert ran == ["colour-grid"]
    assert not list((tmp_path / "out").rglob("error.txt"))


@pytest.mark.parametrize("at_once", [0, 3])
def test_the_rows_that_others_start_from_run_first_and_once(
    at_once: int, data: Datasets, tmp_path: Path, stages: Stages
) -> None:
    wanted = trials(data, tmp_path / "out", rows=("tpc", "mve", "colour-grid"))
    assert [trial.key for trial in with_starts(wanted)] == [
        "starts/sfe/seed0",
        "rows/colour-grid/seed0",
        "rows/tpc/seed0",
        "rows/mve/seed0",
    ]
    assert run_trials(wanted, at_once=at_once) == []
    assert stages.ran.count("sfe/train") == 1
    assert stages.ran.index("sfe/train") < min(stages.ran.index("tpc/train"), stages.ran.index("mve/train"))
    assert not list((tmp_path / "out/starts").rglob("embeddings"))
    stages.ran.clear()
    assert run_trials(wanted, at_once=at_once) == []
    assert stages.ran == []


def test_a_row_fails_if_the_one_it_starts_from_does(data: Datasets, tmp_path: Path, stages: Stages) -> None:
    stages.fails = ("sfe/train",)
    failures = run_trials(trials(data, tmp_path / "out", rows=("tpc", "ours")))
    assert [failure.key for failure in failures] == ["starts/sfe/seed0", "rows/tpc/seed0"]
    assert "starts from starts/sfe/seed0, which failed" in failures[1].message
    assert "ours/evaluate" in stages.ran


def test_a_row_resumes_after_a_kill(data: Datasets, tmp_path: Path, stages: Stages) -> None:
    out = tmp_path / "out"
    stages.interrupted = ("ours/embed",)
    with pytest.raises(KeyboardInterrupt):
        run_trials(trials(data, out))
    left = out / "rows/ours/seed0/.embeddings.x.partial"
    left.mkdir()
    lock = out / "rows/ours/seed0/.run.lock"
    lock.touch()
    stages.interrupted, stages.ran = (), []
    assert run_trials(trials(data, out)) == []
    assert stages.ran == ["ours/embed", "ours/evaluate"]
    assert not left.exists()
    assert not lock.exists()


def test_an_unexpected_error_keeps_its_traceback(data: Datasets, tmp_path: Path) -> None:
    def broken(_trial: Trial, _keep: Keep) -> None:
        raise ZeroDivisionError("by zero")

    failures = run_trials(trials(data, tmp_path / "out"), run=broken)
    assert [failure.message for failure in failures] == ["ZeroDivisionError: by zero"] * 3
    assert "Traceback" in failures[0].file.read_text()


def test_a_step_without_output_is_a_failure(data: Datasets, tmp_path: Path, stages: Stages) -> None:
    stages.run = lambda name, _: stages.ran.append(name)  # type: ignore[method-assign]
    failures = run_trials(trials(data, tmp_path / "out"))
    assert len(failures) == 3
    assert "embed ended without" in failures[0].message


def test_weights_of_completed_rows_are_deleted_and_not_made_again(
    data: Datasets, tmp_path: Path, stages: Stages
) -> None:
    out = tmp_path / "out"
    rows = ("colour-grid", "tpc", "ours")
    assert run_trials(trials(data, out, rows=rows), "vectors") == []
    assert [path.parts[-4] for path in out.rglob("encoder")] == ["sfe"]  # other rows start from it
    assert len(list(out.rglob("embeddings.parquet"))) == 3
    (out / "rows/ours/seed0/results/results.json").unlink()
    stages.ran.clear()
    assert run_trials(trials(data, out, rows=rows), "vectors") == []
    assert stages.ran == ["ours/evaluate"]


def test_a_row_that_was_made_with_other_settings_is_refused(data: Datasets, tmp_path: Path, stages: Stages) -> None:
    out = tmp_path / "out"
    run_trials(trials(data, out))
    failures = run_trials(trials(data, out, {"optimiser": {"lr": 0.5}}))
    assert [failure.key for failure in failures] == ["rows/sup/seed0", "rows/ours/seed0"]  # the other is not trained
    assert "made with other settings" in failures[-1].message
    assert "optimiser.lr: 1e-05 -> 0.5" in failures[-1].message
    assert not list(out.rglob("error.txt"))  # the finished rows stay in the tables
    assert run_trials(trials(data, out, {"train": {"device": "cpu"}})) == []
    assert len(stages.ran) == 8


def test_a_row_that_was_measured_on_other_crops_is_refused(data: Datasets, tmp_path: Path, stages: Stages) -> None:
    out = tmp_path / "out"
    run_trials(trials(data, out))
    assert len(stages.ran) == 8
    info = read_json(data.tests[0] / "dataset.json")
    write_json(data.tests[0] / "dataset.json", {**info, "settings": {"crops": {"scale": 1.5, "workers": 3}}})
    assert len(run_trials(trials(data, out))) == 3


def test_a_row_that_was_measured_with_another_training_part_of_a_split_is_refused(
    data: Datasets, tmp_path: Path, stages: Stages
) -> None:
    assert run_trials(trials(data, tmp_path / "out", rows=("colour-grid",))) == []
    split = replace(data, probe_train={"size": data.tests})
    (failure,) = run_trials(trials(split, tmp_path / "out", rows=("colour-grid",)))
    assert "probe_train: None -> " in failure.message
    assert stages.ran == ["colour-grid/embed", "colour-grid/evaluate"]


def test_a_row_records_its_settings_its_commands_and_their_duration(
    data: Datasets, tmp_path: Path, stages: Stages
) -> None:
    (trial,) = trials(data, tmp_path / "out", rows=("ours",))
    run_trials([trial])
    record = read_json(trial.folder / "row.json")
    assert record["commands"] == [step.command for step in trial.steps]
    assert list(record["seconds"]) == record["commands"]
    assert record["trial"]["config"]["supervision"]["tau_max"] == 12
    assert stages.ran == ["ours/train", "ours/embed", "ours/evaluate"]


@pytest.mark.parametrize("name", ["colour-grid", "frozen", "tpc", "ours"])
def test_a_worker_restores_the_trial_from_its_record(name: str, data: Datasets, tmp_path: Path) -> None:
    (trial,) = trials(data, tmp_path / "out", SETTINGS.get(name, {}), (name,))
    begin_trial(trial)
    assert load_trial(trial.folder) == trial


def test_a_row_that_was_moved_before_it_was_complete_resumes_in_its_new_folder(
    data: Datasets, tmp_path: Path, stages: Stages
) -> None:
    stages.fails = ("ours/embed",)
    run_trials(trials(data, tmp_path / "out", rows=("ours",)))
    (tmp_path / "out").rename(tmp_path / "moved")
    moved = Datasets(data.train, (data.tests[0].rename(tmp_path / "moved-test"),))
    stages.fails, stages.ran = (), []
    (trial,) = trials(moved, tmp_path / "moved", rows=("ours",))
    begin_trial(trial)  # as `Workers` do
    run_trial(load_trial(trial.folder))
    assert stages.ran == ["ours/embed", "ours/evaluate"]
    assert trial.done


@pytest.mark.usefixtures("stages")
def test_complete_rows_need_no_worker(data: Datasets, tmp_path: Path) -> None:
    wanted = trials(data, tmp_path / "out")
    assert run_trials(wanted[:1]) == []
    ran: list[str] = []
    assert run_trials(wanted, run=lambda trial, _: ran.append(trial.row.name)) == []
    assert ran == ["sup", "ours"]


def test_a_record_of_something_else_is_an_error(data: Datasets, tmp_path: Path) -> None:
    (trial,) = trials(data, tmp_path / "out", rows=("ours",))
    write_json(trial.folder / module.RECORD, {"recipe": {}})
    with pytest.raises(UserError, match=r"row\.json: trial: is missing"):
        begin_trial(trial)
