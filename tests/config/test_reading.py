"""The settings tree: TOML in, command line on top, unknown keys refused."""

import inspect
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyptrace.config import Config, as_dict, as_toml, describe, difference, from_dict, override, read_config, tree
from polyptrace.core.errors import UserError


def test_the_defaults_are_the_papers() -> None:
    config = Config()
    assert (config.tracks.length, config.tracks.stride, config.tracks.min_track, config.tracks.iou) == (8, 4, 30, 0.1)
    assert (config.crops.scale, config.crops.size) == (5.0, 232)
    assert (config.supervision.bag_size, config.supervision.tau_min, config.supervision.tau_max) == (4, 0.3, 12.0)
    assert config.supervision.bags_per_batch * (1 + config.supervision.bag_size) == 60
    assert (config.encoder.width, config.encoder.feed_forward, config.encoder.layers, config.encoder.heads) == (
        256, 1024, 3, 8,
    )  # fmt: skip
    assert (config.optimiser.lr, config.optimiser.weight_decay, config.train.epochs) == (1e-5, 1e-4, 50)


def test_toml_then_command_line(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("[train]\nepochs = 3\nseed = 7\n[tracks]\nlink = 'video'\n")
    config = override(read_config(file), ["--train.epochs", "5", "--optimiser.lr=1e-4", "--loss.form", "symmetric"])
    assert (config.train.epochs, config.train.seed, config.tracks.link) == (5, 7, "video")
    assert (config.optimiser.lr, config.loss.form) == (1e-4, "symmetric")


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[trian]\nepochs = 3", r"no section is called 'trian' -> did you mean 'train'\?"),
        ("[train]\nepoch = 3", r"no key of \[train\] is called 'epoch' -> did you mean 'epochs'\?"),
        ("[train]\nepochs = 'many'", r"train.epochs: 'many' does not fit -> give a whole number"),
        ("[train]\nepochs = true", r"train.epochs: True does not fit"),
        ("[tracks]\nlink = 'colour'", r"give polyp\|track\|video"),
        ("train = 3", r"\[train\] is a section"),
        ("[train\n", "not valid TOML"),
    ],
)
def test_what_can_be_mistyped_in_a_file_is_named(tmp_path: Path, toml: str, message: str) -> None:
    file = tmp_path / "c.toml"
    file.write_text(toml)
    with pytest.raises(UserError, match=message):
        read_config(file)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--train.epcohs", "3"], r"did you mean 'train.epochs'\?"),
        (["--train.epochs"], "has no value"),
        (["--train.epochs", "3.5"], "give a whole number"),
        (["--optimiser.lr", "nan"], "give a number"),
        (["train.epochs", "3"], "settings are written --section.key value"),
        (["--synth.seed", "3"], "no setting is called 'synth.seed'"),
        (["--tracks.length", "4"], "is a setting of another command -> this one has train, optimiser"),
    ],
)
def test_what_can_be_mistyped_on_the_command_line_is_named(arguments: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        override(Config(), arguments, sections=("train", "optimiser"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_config(tmp_path / "none.toml")


def test_a_tree_survives_the_way_through_toml() -> None:
    config = override(
        Config(),
        ["--encoder.weights", 'C:\\a "b"', "--tracks.stride_seconds", "0.16", "--train.loggers", "wandb,tensorboard"],
    )
    assert from_dict(tomllib.loads(as_toml(config))) == config


@given(st.text())
def test_any_text_survives_the_way_through_toml(text: str) -> None:
    config = from_dict({"encoder": {"weights": text}})
    assert from_dict(tomllib.loads(as_toml(config))) == config


def test_an_optional_number_can_be_unset_again() -> None:
    config = override(Config(), ["--tracks.stride_seconds", "0.2"])
    assert override(config, ["--tracks.stride_seconds", "none"]) == Config()


def test_a_difference_names_each_setting_once() -> None:
    changed = override(Config(), ["--train.epochs", "5", "--loss.form", "symmetric"])
    assert difference(Config(), changed) == ["loss.form: 'paper' -> 'symmetric'", "train.epochs: 50 -> 5"]
    assert difference(Config(), changed, sections=("loss",)) == ["loss.form: 'paper' -> 'symmetric'"]


def test_every_setting_is_described_with_its_default() -> None:
    rows = {name: (kind, default, text) for name, kind, default, text in describe()}
    assert len(rows) == sum(len(fields(section)) for section in vars(Config()).values())
    assert rows["--tracks.max_gap"] == ("a whole number", "0", "frames that a detector may miss inside a track")
    assert set(as_dict(Config())) == set(vars(Config()))


def test_no_help_text_is_lost_in_a_broken_line() -> None:
    written = inspect.getsource(tree).count("  #: ")
    assert written == sum(bool(text) for *_, text in describe())


def test_every_setting_says_what_it_means() -> None:
    assert [row[0] for row in describe() if not row[3]] == []
