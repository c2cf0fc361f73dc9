"""Small runs: what they write, when they refuse, how they stop and resume."""

import json
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor

from polyptrace.config import Config, Crops, Encoder, Optimiser, Supervision, Tracks, Train, Views
from polyptrace.core.errors import UserError
from polyptrace.core.files import move_folder
from polyptrace.data import Boxes, Dataset, prepare
from polyptrace.embed import embed
from polyptrace.encoders import TrackletEncoder, load_encoder
from polyptrace.encoders.encoder_folder import training_record
from polyptrace.encoders.weights import weights_hash
from polyptrace.methods import METHODS, Targets
from polyptrace.methods import ours as ours_module
from polyptrace.train import loop, run_folder, train

CONFIG = Config(
    supervision=Supervision(bags_per_batch=4, bag_size=2),
    views=Views(batch=8, polyps_per_batch=3, tracklets_per_polyp=4),
    encoder=Encoder("test_resnet", "none", width=16, layers=1, heads=2, feed_forward=16, projection=8),
    optimiser=Optimiser(lr=1e-3),
    train=Train(epochs=1, threads=1, loggers=()),
)


def with_train(config: Config = CONFIG, **changes: object) -> Config:
    return replace(config, train=replace(config.train, **changes))


@pytest.fixture(scope="module")
def small(make_dataset: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Two videos, 14 tracklets."""
    return Dataset.open(make_dataset(tmp_path_factory.mktemp("data") / "small", [[4, 3], [4, 3]], frames=8))


@pytest.fixture(scope="module")
def finished(small: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "finished"
    train(with_train(checkpoint_every=2, loggers=("tensorboard",)), small, out)
    return out


def test_the_number_of_threads_is_that_of_the_training_only(coloured: Dataset, tmp_path: Path) -> None:
    """What follows in the same process must not compute with other last bits than in a process of its own."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        train(with_train(threads=1), coloured, tmp_path / "run")
        assert run_folder.read_environment(tmp_path / "run").starts[0].threads == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_the_trained_encoder_says_how_it_was_trained(finished: Path) -> None:
    record = load_encoder(finished).record
    assert (record.method, record.data, record.labels, record.seed) == ("ours", "small", "none", 0)
    assert (record.steps, record.frames, record.init_from) == (3, 3 * 12 * 8, "")
    assert record.generated is None  # the dataset does not state it
    assert record.settings["optimiser"]["lr"] == 1e-3


def test_an_encoder_trained_on_generated_pictures_says_so(small: Dataset, tmp_path: Path) -> None:
    data = replace(small, info=small.info | {"generated": True, "counts": {"videos": 2}})
    out = train(with_train(epochs=0), data, tmp_path / "run")
    assert "- Data: small; generated images; 2 videos\n" in (out / "README.md").read_text()


def test_a_run_leaves_settings_figures_checkpoints_and_an_encoder(finished: Path) -> None:
    names = {path.name for path in finished.iterdir()}
    assert names >= {"config.toml", "metrics.jsonl", "checkpoints", "environment.json", "encoder", "tensorboard"}
    figures = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert [f["step"] for f in figures] == [1, 2, 3]
    assert figures[-1].keys() >= {"loss", "loss_tracklet", "loss_frame", "condition", "tau", "lr", "epoch", "frames"}
    assert figures[-1].keys() >= {"gradient_norm", "time", "frames_per_second", "memory_gib"}
    assert all(f["gradient_norm"] > 0 for f in figures)
    assert figures[-1]["frames"] == 3 * 12 * 8
    environment = json.loads((finished / "environment.json").read_text())
    assert environment["labels"] == "none"
    assert any("torch finds no GPU" in note or "device" in note for note in environment["starts"][0]["notes"])
    assert "Polyp labels used: none" in (finished / "encoder" / "README.md").read_text()


def test_the_encoder_of_a_run_is_the_one_of_its_last_checkpoint(finished: Path) -> None:
    encoder = load_file(finished / "encoder" / "model.safetensors")
    last = load_file(finished / "checkpoints" / "step-00000003.safetensors")
    assert all(torch.equal(tensor, last[f"model.{name}"]) for name, tensor in encoder.items())


def test_a_finished_run_is_not_trained_again(finished: Path, small: Dataset) -> None:
    before = (finished / "encoder" / "model.safetensors").stat().st_mtime_ns
    train(with_train(checkpoint_every=2, loggers=("tensorboard",)), small, finished)
    assert (finished / "encoder" / "model.safetensors").stat().st_mtime_ns == before


def test_changed_settings_are_refused_with_the_difference(finished: Path, small: Dataset) -> None:
    changed = replace(CONFIG, optimiser=Optimiser(lr=0.5))
    with pytest.raises(UserError, match=r"optimiser\.lr: 0\.001 -> 0\.5\n.*--init-from"):
        train(changed, small, finished)


def test_another_dataset_is_refused(finished: Path, coloured: Dataset) -> None:
    with pytest.raises(UserError, match="not the dataset that this run began with"):
        train(CONFIG, coloured, finished)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, small: Dataset) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(UserError, match="not a run folder"):
        train(CONFIG, small, tmp_path)


def test_a_run_that_was_killed_while_it_was_recorded_starts_anew(
    finished: Path, small: Dataset, tmp_path: Path
) -> None:
    environment = json.loads((finished / "environment.json").read_text())
    (tmp_path / "environment.json").write_text(json.dumps(environment | {"init_from": "another"}))
    (tmp_path / ".config.toml.1.partial.toml").write_text("[train")  # config.toml comes last
    train(with_train(epochs=0), small, tmp_path)
    again = json.loads((tmp_path / "environment.json").read_text())
    assert again["init_from"] is None
    assert len(again["starts"]) == 1
    assert not list(tmp_path.glob(".*"))


def test_a_run_may_begin_with_the_weights_of_another(finished: Path, small: Dataset, tmp_path: Path) -> None:
    out = train(with_train(epochs=0), small, tmp_path / "next", init_from=str(finished))
    assert weights_hash(load_encoder(out)) == weights_hash(load_encoder(finished))
    wider = replace(with_train(epochs=0), encoder=replace(CONFIG.encoder, width=32))
    with pytest.raises(UserError, match="--init-from"):
        train(wider, small, tmp_path / "wider", init_from=str(finished))


def test_mve_may_begin_with_the_backbone_of_an_sfe_whose_frames_are_counted(
    small: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sfe, mve = str(tmp_path / "sfe"), str(tmp_path / "mve")
    train(with_train(method="sfe", frames=100), small, Path(sfe))
    capsys.readouterr()
    out = train(with_train(method="mve", epochs=0), small, Path(mve), init_from=sfe)
    printed = " ".join(capsys.readouterr().err.split())
    assert f"the backbone from {sfe} (112 frames); adapter, layers, projector, token at random" in printed
    source, trained = load_encoder(sfe).state_dict(), load_encoder(out).state_dict()
    backbone = [name for name in trained if name.startswith("backbone.")]
    assert len(backbone) > 20
    assert all(torch.equal(trained[name], source[name]) for name in backbone)
    assert training_record(sfe).total_frames == training_record(mve).total_frames == 112
    assert f"Initial weights: {sfe} (112 frames)" in (out / "README.md").read_text()
    longer = train(with_train(method="mve", frames=100), small, tmp_path / "longer", init_from=sfe)
    assert training_record(longer).total_frames == 112 + 128


def test_zero_epochs_give_the_encoder_as_it_starts(small: Dataset, tmp_path: Path) -> None:
    out = train(with_train(epochs=0), small, tmp_path / "r")
    torch.manual_seed(0)
    fresh = METHODS["ours"].encoder(CONFIG, 32)
    assert weights_hash(load_encoder(out)) == weights_hash(fresh)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_trains_and_embeds(name: str, small: Dataset, tmp_path: Path) -> None:
    config = with_train(method=name, frames=300)
    out = train(config, small, tmp_path / "r")
    figures = [json.loads(line) for line in (tmp_path / "r" / "metrics.jsonl").read_text().splitlines()]
    assert figures[-1]["frames"] >= 250
    assert np.isfinite([f["loss"] for f in figures]).all()
    encoder = load_encoder(out)
    assert encoder.name == name
    assert embed(encoder, small, ["track"]).vectors.std(axis=0).max() > 0


def test_training_makes_polyps_of_other_procedures_easier_to_tell_apart(
    coloured: Dataset, make_dataset: Callable[..., Path], tmp_path: Path
) -> None:
    other = Dataset.open(make_dataset(tmp_path / "d", [[4, 4, 4]], frames=8, seed=5))

    def gap(run: Path) -> float:
        table = embed(load_encoder(run), other, ["track"])
        unit = table.vectors / np.linalg.norm(table.vectors, axis=1, keepdims=True)
        same = table.polyp[:, None] == table.polyp
        cosine = unit @ unit.T
        return float(cosine[same & ~np.eye(len(unit), dtype=bool)].mean() - cosine[~same].mean())

    config = replace(CONFIG, supervision=Supervision(bags_per_batch=6, bag_size=2, tau_max=1.0))
    before = gap(train(with_train(config, epochs=0), coloured, tmp_path / "before"))
    after = gap(train(with_train(config, epochs=4), coloured, tmp_path / "after"))
    assert after > before + 0.1


def metrics(run: Path, name: str = "metrics.jsonl") -> list[int]:
    """The steps in a log."""
    return [json.loads(line)["step"] for line in (run / name).read_text().splitlines()]


def break_at(call: int, monkeypatch: pytest.MonkeyPatch, action: Callable[[], None]) -> None:
    """Calls `action` in the given call of the loss."""
    calls = 0

    def loss(z: Tensor, targets: Targets, config: Config) -> tuple[Tensor, dict[str, Tensor]]:
        nonlocal calls
        calls += 1
        if calls == call:
            action()
        return ours_module.loss(z, targets, config)

    monkeypatch.setitem(METHODS, "ours", replace(METHODS["ours"], loss=loss))


def fail() -> None:
    raise RuntimeError("a bug")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_step_and_writes_a_checkpoint_from_which_the_run_resumes(
    number: signal.Signals, small: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(number, ended)
    try:
        whole = train(with_train(epochs=2), small, tmp_path / "whole")
        with monkeypatch.context() as patch:
            break_at(3, patch, lambda: os.kill(os.getpid(), number))
            with pytest.raises(KeyboardInterrupt):
                train(with_train(epochs=2), small, tmp_path / "run")
        assert signal.getsignal(number) is ended
    finally:
        signal.signal(number, before)
    assert not (tmp_path / "run" / "encoder").exists()
    assert [p.name for p in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-00000003.safetensors"]
    assert metrics(tmp_path / "run") == [1, 2, 3]
    resumed = train(with_train(epochs=2), small, tmp_path / "run")
    assert metrics(tmp_path / "run") == metrics(tmp_path / "whole")
    assert weights_hash(load_encoder(resumed)) == weights_hash(load_encoder(whole))


def test_resuming_needs_no_initial_weights(small: Dataset, tmp_path: Path) -> None:
    file = tmp_path / "weights.safetensors"
    save_file(TrackletEncoder("test_resnet").backbone.state_dict(), file)
    config = replace(CONFIG, encoder=replace(CONFIG.encoder, weights=str(file)))
    train(config, small, tmp_path / "run")
    train(with_train(config, epochs=2), small, tmp_path / "whole")
    file.unlink()
    train(with_train(config, epochs=2), small, tmp_path / "run")
    assert metrics(tmp_path / "run") == metrics(tmp_path / "whole")


def test_checkpoints_are_also_written_by_time(small: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    break_at(4, monkeypatch, fail)
    with pytest.raises(RuntimeError, match="a bug"):
        train(with_train(epochs=2, checkpoint_minutes=0.0), small, tmp_path / "r")
    names = sorted(path.name for path in (tmp_path / "r" / "checkpoints").iterdir())
    assert names == ["step-00000002.safetensors", "step-00000003.safetensors"]


def test_a_run_without_a_checkpoint_starts_anew_with_other_settings_and_new_metrics(
    small: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        break_at(3, patch, fail)
        with pytest.raises(RuntimeError, match="a bug"):
            train(CONFIG, small, tmp_path / "r")
    assert metrics(tmp_path / "r") == [1]  # metrics are logged one step late
    changed = replace(CONFIG, optimiser=Optimiser(lr=0.5e-3))
    train(changed, small, tmp_path / "r")
    assert metrics(tmp_path / "r") == [1, 2, 3]
    assert "lr = 0.0005" in (tmp_path / "r" / "config.toml").read_text()
    assert len(json.loads((tmp_path / "r" / "environment.json").read_text())["starts"]) == 2


def test_a_setting_that_cannot_work_leaves_no_run_behind(small: Dataset, tmp_path: Path) -> None:
    too_many = replace(CONFIG, supervision=Supervision(bags_per_batch=100, bag_size=2))
    with pytest.raises(UserError, match="use at most 14 bags"):
        train(too_many, small, tmp_path / "r")
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("section", "settings", "message"),
    [
        ("supervision", Supervision(bag_size=0), r"--supervision\.bag-size 0: out of range -> give 1 or more"),
        ("supervision", Supervision(bags_per_batch=0), r"--supervision\.bags-per-batch 0: out of range"),
        ("views", Views(deviation=0.0), r"--views\.deviation 0\.0: out of range -> give a number above 0"),
    ],
)
def test_a_setting_that_is_out_of_range_is_refused_before_training(
    section: str, settings: object, message: str, small: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        train(replace(CONFIG, **{section: settings}), small, tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_crops_are_never_enlarged(small: Dataset, tmp_path: Path) -> None:
    message = r"64 pixels, but the stored crops have 32 -> prepare them with --crops\.size 64"
    with pytest.raises(UserError, match=message):
        train(with_train(crop_size=64), small, tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_a_run_is_overwritten_only_when_that_is_requested(small: Dataset, tmp_path: Path) -> None:
    first = weights_hash(load_encoder(train(CONFIG, small, tmp_path / "r")))
    changed = with_train(seed=1)
    with pytest.raises(UserError, match=r"train\.seed: 0 -> 1\n.*--overwrite"):
        train(changed, small, tmp_path / "r")
    second = weights_hash(load_encoder(train(changed, small, tmp_path / "r", overwrite=True)))
    assert first != second == weights_hash(load_encoder(train(changed, small, tmp_path / "fresh")))
    assert metrics(tmp_path / "r") == [1, 2, 3]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    with pytest.raises(UserError, match="not a run folder"):
        train(changed, small, tmp_path / "other", overwrite=True)


#: The function at which a run that overwrites another one is interrupted.
CALLED = {
    "before the end": "save_encoder",
    "before the exchange": "move_folder",
    "after the exchange": "move_folder",
}


@pytest.mark.parametrize("moment", CALLED)
def test_an_interrupted_overwrite_keeps_a_complete_run_and_the_same_command_resumes(
    small: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def interrupted(*words: Any, **named: Any) -> None:
        if moment == "after the exchange":
            move_folder(*words, **named)
        raise KeyboardInterrupt

    out, changed = tmp_path / "r", with_train(seed=1, checkpoint_every=1)
    old = weights_hash(load_encoder(train(CONFIG, small, out)))
    new = weights_hash(load_encoder(train(changed, small, tmp_path / "fresh")))
    with monkeypatch.context() as patch:
        patch.setattr(loop if moment == "before the end" else run_folder, CALLED[moment], interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(changed, small, out, overwrite=True)
    assert weights_hash(load_encoder(out)) == (new if moment == "after the exchange" else old)
    train(changed, small, out, overwrite=True)
    assert weights_hash(load_encoder(out)) == new
    starts = json.loads((out / "environment.json").read_text())["starts"]
    assert [start["step"] for start in starts] == ([0, 3] if moment == "before the end" else [0])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fresh", "r"]
    assert not list(out.glob(".*"))


def test_an_overwrite_that_another_process_stopped_keeps_the_old_run(
    small: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, changed = tmp_path / "r", with_train(seed=1)
    old = weights_hash(load_encoder(train(CONFIG, small, out)))
    with monkeypatch.context() as patch:  # no signal reaches this process
        patch.setattr(loop, "run_steps", lambda _run, state, _stop: (state, False))
        train(changed, small, out, overwrite=True)
    assert weights_hash(load_encoder(out)) == old
    train(changed, small, out, overwrite=True)
    assert weights_hash(load_encoder(out)) != old


def test_an_interrupted_overwrite_begins_anew_with_other_settings(
    small: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "r"
    train(CONFIG, small, out)
    with monkeypatch.context() as patch:
        patch.setattr(loop, "save_encoder", lambda *_, **__: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            train(with_train(seed=1), small, out, overwrite=True)
    train(with_train(seed=2), small, out, overwrite=True)
    assert "seed = 2" in (out / "config.toml").read_text()
    assert len(json.loads((out / "environment.json").read_text())["starts"]) == 1


def test_a_finished_run_can_be_continued_for_more_epochs(
    small: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(CONFIG, small, tmp_path / "r")
    with monkeypatch.context() as patch:
        break_at(2, patch, fail)
        with pytest.raises(RuntimeError, match="a bug"):
            train(with_train(epochs=2), small, tmp_path / "r")
    assert not (tmp_path / "r" / "encoder").exists()
    out = train(with_train(epochs=2), small, tmp_path / "r")
    assert metrics(tmp_path / "r") == [1, 2, 3, 4, 5, 6, 7]
    last = load_file(tmp_path / "r" / "checkpoints" / "step-00000007.safetensors")
    assert all(torch.equal(t, last[f"model.{name}"]) for name, t in load_encoder(out).state_dict().items())
    with pytest.raises(UserError, match=r"train\.epochs: 2 -> 1"):
        train(CONFIG, small, tmp_path / "r")


def test_a_full_disk_gives_one_line_and_the_previous_checkpoint_stays_usable(
    small: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit on the size of files simulates a full disk."""
    config = with_train(epochs=2, checkpoint_every=2)
    whole = train(config, small, tmp_path / "whole")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with monkeypatch.context() as patch:
        break_at(4, patch, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1])))
        try:
            with pytest.raises(UserError, match=r"step-00000004.* cannot be written \(.*-> free disk space .*00000002"):
                train(config, small, tmp_path / "r")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in (tmp_path / "r" / "checkpoints").iterdir()] == ["step-00000002.safetensors"]
    resumed = train(config, small, tmp_path / "r")
    assert weights_hash(load_encoder(resumed)) == weights_hash(load_encoder(whole))


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_full_disk_under_the_metrics_gives_one_error_and_no_traceback_of_a_thread(
    small: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    break_at(3, monkeypatch, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1300, before[1])))
    try:
        with pytest.raises(OSError, match="File too large"):
            train(with_train(epochs=3, loggers=("tensorboard",)), small, tmp_path / "r")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "Traceback" not in capfd.readouterr().err


def test_a_loss_that_is_not_finite_stops_with_step_tracklets_and_the_last_good_checkpoint(
    small: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def poisoned(z: Tensor, targets: Targets, config: Config) -> tuple[Tensor, dict[str, Tensor]]:
        nonlocal calls
        calls += 1
        loss, figures = ours_module.loss(z, targets, config)
        return loss * (float("nan") if calls == 6 else 1.0), figures

    monkeypatch.setitem(METHODS, "ours", replace(METHODS["ours"], loss=poisoned))
    with pytest.raises(UserError, match=r"step 6 .* the loss is nan .* lower --optimiser\.lr .*step-00000004.*: \d+, "):
        train(with_train(epochs=3, checkpoint_every=2), small, tmp_path / "r")
    kept = sorted((tmp_path / "r" / "checkpoints").iterdir())
    assert [path.name for path in kept] == ["step-00000002.safetensors", "step-00000004.safetensors"]
    assert all(tensor.isfinite().all() for tensor in load_file(kept[-1]).values() if tensor.is_floating_point())


def test_weights_that_are_not_finite_are_never_saved(small: Dataset, tmp_path: Path) -> None:
    diverging = replace(with_train(checkpoint_every=1, epochs=3), optimiser=Optimiser(lr=1e30))
    with pytest.raises(UserError, match=r"not finite|the loss is"):
        train(diverging, small, tmp_path / "r")
    for checkpoint in (tmp_path / "r" / "checkpoints").iterdir():
        assert all(t.isfinite().all() for t in load_file(checkpoint).values() if t.is_floating_point())


def test_scrambled_polyp_labels_give_the_same_weights_to_the_bit(tmp_path: Path) -> None:
    """Labels are scrambled in the box table, before boxes are linked by overlap alone."""
    random = np.random.default_rng(0)
    count = 70
    for video in ("a", "b"):
        (tmp_path / video).mkdir()
        for frame in range(count):
            Image.fromarray(random.integers(0, 255, (60, 60, 3), np.uint8)).save(tmp_path / video / f"{frame}.jpg")
    frame = np.tile(np.arange(count), 2)
    video = np.repeat(["a", "b"], count).astype(object)
    polyp = np.where(frame < 35, "first", "second").astype(object)
    hashes = set()
    for name, labels in (("as they are", polyp), ("scrambled", random.permutation(polyp)), ("gone", polyp * 0)):
        boxes = Boxes.of(
            dataset=np.full(2 * count, "d", object),
            video=video,
            frame_index=frame,
            file=np.array([f"{v}/{f}.jpg" for v, f in zip(video, frame, strict=True)], object),
            xywh=np.stack([20 + frame % 5, 20 + frame % 3, np.full(2 * count, 12), np.full(2 * count, 12)], 1) * 1.0,
            image_width=np.full(2 * count, 60),
            image_height=np.full(2 * count, 60),
            polyp=labels,
        )
        data = prepare(boxes, tmp_path, tmp_path / name / "data", Tracks(link="video"), Crops(size=32))
        config = replace(with_train(epochs=2), supervision=Supervision(bags_per_batch=2, bag_size=1))
        hashes.add(weights_hash(load_encoder(train(config, data, tmp_path / name / "run"))))
    assert len(hashes) == 1
