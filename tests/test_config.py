"""The settings tree: TOML in, command line on top, unknown keys refused."""

import inspect
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyptrace import config as config_module
from polyptrace.config import (
    Config,
    as_dict,
    as_options,
    as_toml,
    check_limits,
    describe,
    difference,
    from_dict,
    override,
    read_config,
)
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
    config = override(read_config(file), ["--train.epochs", "5", "--optimiser.lr=1e-4", "--loss.form", "paper"])
    assert (config.train.epochs, config.train.seed, config.tracks.link) == (5, 7, "video")
    assert (config.optimiser.lr, config.loss.form) == (1e-4, "paper")


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[trian]\nepochs = 3", r"there is no section 'trian' -> did you mean 'train'\?"),
        ("[train]\nepoch = 3", r"there is no key of \[train\] 'epoch' -> did you mean 'epochs'\?"),
        ("[train]\nepochs = 'many'", r"train.epochs: 'many' is not valid -> give an integer"),
        ("[train]\nepochs = true", r"train.epochs: True is not valid"),
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
        (["--train.epcohs", "3"], r"did you mean --train.epochs\?"),
        (["--train.epochs"], "has no value"),
        (["--train.epochs", "3.5"], "give an integer"),
        (["--optimiser.lr", "nan"], "give a number"),
        (["--train.epochs", "-1"], "--train.epochs -1: out of range -> give 0 or more"),
        (["--train.log-every", "0"], "--train.log-every 0: out of range -> give 1 or more"),
        (["train.epochs", "3"], "settings are written --section.key value"),
        (["--synth.seed", "3"], "--synth.seed: no such option or setting -> did you mean --"),
        (["--tracks.length", "4"], "is a setting of another command -> this one has the sections train, optimiser"),
    ],
)
def test_what_can_be_mistyped_on_the_command_line_is_named(arguments: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        override(Config(), arguments, sections=("train", "optimiser"))


def test_the_defaults_are_inside_their_limits() -> None:
    for section in fields(Config):
        check_limits(getattr(Config(), section.name), section.name)


@pytest.mark.parametrize(
    ("option", "inside", "outside", "message"),
    [
        ("--crops.scale", "0.1", "0", "give a number above 0"),
        ("--tracks.sampled-iou", "1", "1.1", "give a number from 0 to 1"),
        ("--tracks.sampled-stride", "none", "0", "give 1 or more"),
        ("--evaluate.count-threshold", "-1", "-1.5", "give a number from -1 to 1"),
        ("--encoder.layers", "1", "0", "give 1 or more"),
        ("--supervision.tau-share", "1", "1.1", "give a number from 0 to 1"),
        ("--views.alpha-epochs", "0", "-1", "give 0 or more"),
        ("--supervision.bags-per-batch", "2", "1", "give 2 or more"),
        ("--views.batch", "2", "1", "give 2 or more"),
        ("--views.polyps-per-batch", "2", "1", "give 2 or more"),
        ("--views.tracklets-per-polyp", "2", "1", "give 2 or more"),
        ("--loss.frame-weight", "0", "-0.5", "give 0 or more"),
        ("--tracks.stride-seconds", "0.01", "0", "give a number above 0"),
        ("--train.seed", "1000000000", "99999999999999999999", "give a number from 0 to 1000000000"),
        ("--evaluate.seed", "0", "-1", "give a number from 0"),
        ("--train.frames", "1000000000000", "1000000000001", "give a number from 0 to 1000000000000"),
    ],
)
def test_a_value_at_its_limit_is_accepted_and_one_beyond_is_not(
    option: str, inside: str, outside: str, message: str
) -> None:
    override(Config(), [option, inside])
    with pytest.raises(UserError, match=f"{option} .*: out of range -> {message}"):
        override(Config(), [option, outside])


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


@pytest.mark.parametrize("name", ["--tracks.max-gap", "--tracks.max_gap"])
def test_settings_are_written_with_hyphens_or_underscores(name: str) -> None:
    assert override(Config(), [name, "3"]).tracks.max_gap == 3


def test_options_restore_the_settings_that_they_were_made_from() -> None:
    options = ["--tracks.max-gap", "3", "--loss.within-tracklet", "false", "--optimiser.lr", "3e-05"]
    options += ["--train.loggers", "wandb,mlflow", "--evaluate.count-alpha", "0.25"]
    config = override(Config(), options)
    assert as_options(config, Config()) == options
    assert as_options(config, Config(), ("tracks",)) == options[:2]
    assert override(config, as_options(Config(), config)) == Config()


def test_an_optional_number_can_be_unset_again() -> None:
    config = override(Config(), ["--tracks.stride_seconds", "0.2"])
    assert override(config, ["--tracks.stride_seconds", "none"]) == Config()


def test_a_difference_names_each_setting_once() -> None:
    changed = override(Config(), ["--train.epochs", "5", "--loss.form", "paper"])
    assert difference(Config(), changed) == ["loss.form: 'symmetric' -> 'paper'", "train.epochs: 50 -> 5"]
    assert difference(Config(), changed, sections=("loss",)) == ["loss.form: 'symmetric' -> 'paper'"]


def test_every_setting_is_described_with_its_default() -> None:
    rows = {name: (kind, default, text) for name, kind, default, text in describe()}
    assert len(rows) == sum(len(fields(section)) for section in vars(Config()).values())
    assert rows["--tracks.max-gap"] == (
        "integer",
        "0",
        "number of consecutive missed frames that a track may contain",
    )
    assert set(as_dict(Config())) == set(vars(Config()))


def test_no_help_text_is_lost_in_a_broken_line() -> None:
    written = inspect.getsource(config_module).count("  #: ")
    assert written == sum(bool(text) for *_, text in describe())


def test_every_setting_says_what_it_means() -> None:
    assert [row[0] for row in describe() if not row[3]] == []
