"""The demo's commands."""

import shlex
from pathlib import Path

import pytest

from polyptrace import demo
from polyptrace.cli import COMMANDS
from polyptrace.config import parse_options


def test_every_step_of_the_demo_is_a_command_with_valid_settings() -> None:
    steps = demo.steps(Path("demo"))
    assert [line.split()[0] for _, line in steps][:5] == ["synth", "prepare", "prepare", "train", "train"]
    for _, line in steps:
        words = shlex.split(line)
        assert words[0] in COMMANDS
        settings = [n for n, word in enumerate(words) if word.startswith("--") and "." in word]
        parse_options([word for n in settings for word in words[n : n + 2]])


def test_a_folder_with_a_space_is_one_word_of_each_command() -> None:
    plain, spaced = demo.steps(Path("demo")), demo.steps(Path("my demo's"))
    for (output, line), (other_output, other_line) in zip(plain, spaced, strict=True):
        assert [word.replace("demo", "my demo's", 1) for word in shlex.split(line)] == shlex.split(other_line)
        assert str(output).replace("demo", "my demo's", 1) == str(other_output)


def test_completed_steps_of_the_demo_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []
    folder = tmp_path / "my[/demo]"  # not markup
    for output, _ in demo.steps(folder)[:-1]:
        output.mkdir(parents=True)
    monkeypatch.setattr(demo, "polyptrace", lambda words: ran.append(words[0]))
    monkeypatch.setattr("sys.argv", ["demo", str(folder)])
    demo.main()
    assert ran == ["report"]
    assert "my[/demo]/report/report.html" in capsys.readouterr().err
