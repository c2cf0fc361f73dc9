"""Terminal output: progress without a terminal, names as data, counts with their nouns."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from polyptrace.core import console as module
from polyptrace.core.console import counted, echo, notify, percent, printable, progress, proportion, suggest
from polyptrace.core.device import choose_device

WIDE_TABLE = """
from rich.table import Table
from polyptrace.core.console import output
table = Table("name", "value")
table.add_row("x" * 60, "y" * 60)
output.print(table)
"""
EVIL = "\x1b]0;title\x07video\x1b[31m\x9b1m\u202e\udcff"


def test_one_is_singular_and_all_other_numbers_are_plural() -> None:
    assert [counted(n, "polyp") for n in (0, 1, 2)] == ["0 polyps", "1 polyp", "2 polyps"]
    assert [counted(n, "query", "queries") for n in (1, 1200)] == ["1 query", "1,200 queries"]


def test_the_next_command_never_names_an_existing_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for expected in ("vectors", "vectors-2", "vectors-3"):
        suggest("embed", "my run", out="vectors")
        assert capsys.readouterr().out == f"next: polyptrace embed 'my run' --out {expected}\n"
        Path(expected).mkdir()


def test_one_thread_is_printed_in_the_singular(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert choose_device("cpu", "--train.device")[1] == "device: CPU with 1 thread (requested)"


def test_control_characters_become_escapes_and_other_text_stays() -> None:
    assert printable(EVIL) == r"\x1b]0;title\x07video\x1b[31m\x9b1m\u202e\udcff"
    assert printable("Größe 3×4\n\tτ → 日本") == "Größe 3×4\n\tτ → 日本"


def test_no_name_reaches_the_terminal_with_escape_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    echo(EVIL)
    module.console.print(EVIL)
    with progress(EVIL, 1) as bar:
        bar.say(EVIL)
        bar.advance()
    printed = capsys.readouterr()
    for text in (printed.out, printed.err):
        assert "video" in text
        assert not set("\x1b\x07\x9b\u202e\udcff") & set(text)


def test_styles_are_still_printed_on_a_terminal() -> None:
    terminal = module.SafeConsole(file=io.StringIO(), force_terminal=True, color_system="standard")
    terminal.print("[bold red]error:[/] \x1b[2J", highlight=False)
    assert terminal.file.getvalue() == "\x1b[1;31merror:\x1b[0m \\x1b[2J\n"  # type: ignore[attr-defined]


def test_without_a_terminal_progress_is_a_line_every_half_minute_with_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    with progress("training", 1000, "tracklets") as bar:
        bar.skip(200)
        bar.say("loss 1.23")
        for now in range(1, 81):  # noqa: B007
            bar.advance(10)
    assert capsys.readouterr().err.splitlines() == [
        "training: 250 of 1,000 tracklets, 10.0 tracklets/s, 75 s left, loss 1.23",
        "training: 550 of 1,000 tracklets, 10.0 tracklets/s, 45 s left, loss 1.23",
        "training: 850 of 1,000 tracklets, 10.0 tracklets/s, 15 s left, loss 1.23",
        "training: 1,000 of 1,000 tracklets, 10.0 tracklets/s, done in 80 s, loss 1.23",
    ]


def test_the_last_line_of_an_incomplete_bar_does_not_say_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    with progress("training", 1000, "tracklets") as bar:
        now = 2.0
        bar.advance(40)
    assert capsys.readouterr().err == "training: 40 of 1,000 tracklets, 20.0 tracklets/s, ended after 2 s\n"
    with progress("detecting", None, "frames") as bar:  # of unknown length
        now = 4.0
        bar.advance(40)
    assert capsys.readouterr().err == "detecting: 40 frames, 20.0 frames/s, done in 2 s\n"


@pytest.mark.parametrize(
    ("count", "total", "text"),
    [
        (19, 19, "19 of 19"),
        (3, 7, "3 of 7"),
        (990, 1000, "99.0 %"),
        (1000, 1000, "1,000 of 1,000"),
        (0, 500, "0 of 500"),
        (999_999, 1_000_000, "999,999 of 1,000,000"),
        (1, 1_000_000, "1 of 1,000,000"),
        (0, 0, "0 of 0"),
    ],
)
def test_a_share_of_few_is_a_count(count: int, total: int, text: str) -> None:
    assert proportion(count, total) == text


@pytest.mark.parametrize(
    ("probability", "text"),
    [(0, "0"), (1e-9, "under 1"), (0.005, "under 1"), (0.006, "1"), (0.994, "99"), (0.995, "over 99"), (1, "100")],
)
def test_only_certainty_is_0_or_100_per_cent(probability: float, text: str) -> None:
    assert percent(probability) == f"{text}\N{NO-BREAK SPACE}%"


def test_without_a_terminal_tables_are_not_cut_at_80_columns() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    text = subprocess.check_output([sys.executable, "-c", WIDE_TABLE], text=True, env=environment)
    assert f"{'x' * 60} │ {'y' * 60}" in text


def test_messages_keep_brackets_that_rich_would_take_for_markup(capsys: pytest.CaptureFixture[str]) -> None:
    notify("data/[red]/[/x]: written :smile:")
    assert capsys.readouterr().err == "data/[red]/[/x]: written :smile:\n"
