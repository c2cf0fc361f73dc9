"""Terminal output: messages, progress, and counts with their nouns.

Names of videos and files are data: `console`, `output` and `echo` replace control characters in them, so that no name
can change the terminal's title, colours or cursor.
"""

import os
import re
import shlex
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.text import Text

WIDTH = 160  # columns without a terminal
FIRST_LINE, LINE_EVERY = 5.0, 30.0  # seconds between progress lines without a terminal

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""`text` with control characters, bidirectional overrides and undecodable bytes written as escapes.

    >>> printable("\x1b]0;title\x07video\n")
    '\\x1b]0;title\\x07video\n'
    """
    return _UNPRINTABLE.sub(lambda match: ascii(match.group())[1:-1], text)


class SafeConsole(Console):
    """A console that prints the text of its renderables with `printable`, in its own styles."""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(
            segment if segment.control else Segment(printable(segment.text), segment.style) for segment in buffer
        )


def _width(stream: TextIO) -> int | None:
    """The columns of a console: those of the terminal, or enough for our tables in pipes and logs."""
    return None if stream.isatty() or "COLUMNS" in os.environ else WIDTH


#: Standard error: messages, warnings and progress.
console = SafeConsole(stderr=True, width=_width(sys.stderr))
#: Standard output: what a command answers.
output = SafeConsole(width=_width(sys.stdout))


def echo(text: str) -> None:
    """Prints a plain line on standard output."""
    output.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)


def notify(text: str, style: str = "", end: str = "\n") -> None:
    """Prints plain text on standard error."""
    console.print(text, style=style, end=end, markup=False, highlight=False, emoji=False, soft_wrap=True)


def suggest(*words: object, out: str | None = None) -> None:
    """Prints the command that usually comes next; `out` is its output, numbered if the name is taken (vectors-2)."""
    if out is not None:
        words = (*words, "--out", next(name for name in numbered(out) if not Path(name).exists()))
    echo(f"next: polyptrace {shlex.join(map(str, words))}")


def numbered(name: str) -> Iterator[str]:
    """The name, then the name with a number: vectors, vectors-2, vectors-3, ..."""
    return chain((name,), (f"{name}-{number}" for number in count(2)))


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """A number with its noun; `plural` if it is not the singular with an s.

    >>> counted(1, "polyp"), counted(1200, "polyp"), counted(2, "query", "queries")
    ('1 polyp', '1,200 polyps', '2 queries')
    """
    return f"{number:,} {singular if number == 1 else plural or f'{singular}s'}"


def proportion(count: int, total: int) -> str:
    """A share of a total: a count if the total is small or the share is about none or all, otherwise per cent.

    >>> proportion(19, 19), proportion(3, 7), proportion(990, 1000), proportion(1000, 1000)
    ('19 of 19', '3 of 7', '99.0 %', '1,000 of 1,000')
    >>> proportion(1, 1_000_000), proportion(999_999, 1_000_000)
    ('1 of 1,000,000', '999,999 of 1,000,000')
    """
    share = f"{100 * count / total:.1f} %" if total else ""
    if total < 200 or share in ("0.0 %", "100.0 %"):
        return f"{count:,} of {total:,}"
    return share


def percent(probability: float) -> str:
    """A probability in per cent, in one piece; 0 and 100 % only if it is exactly that.

    >>> percent(0.512), percent(0.0001), percent(0.9999), percent(1)
    ('51\\xa0%', 'under 1\\xa0%', 'over 99\\xa0%', '100\\xa0%')
    """
    number = f"{100 * probability:.0f}"
    if number == "0" and probability > 0:
        number = "under 1"
    if number == "100" and probability < 1:
        number = "over 99"
    return f"{number}\N{NO-BREAK SPACE}%"


class Bar:
    """One progress bar: `advance(n)` moves it, `say("loss 1.23")` sets the note below it.

    Without a terminal it prints a line with the time left, at first after a few seconds and then every 30 seconds.
    """

    def __init__(self, bars: Progress, description: str, total: int | None, unit: str) -> None:
        self._bars, self._unit = bars, unit
        self._task = bars.add_task(description, total=total, rate="")
        self._started = time.monotonic()
        self._next_line = self._started + FIRST_LINE
        self._skipped = 0
        self.note = Text(style="dim")

    def skip(self, amount: int) -> None:
        """Counts items that an earlier run has completed; they do not enter the rate."""
        self._skipped += amount
        self._bars.update(self._task, completed=self._skipped)

    def advance(self, amount: int = 1) -> None:
        """Counts completed items."""
        self._bars.advance(self._task, amount)
        self._bars.update(self._task, rate=self._rate())
        now = time.monotonic()
        if now >= self._next_line and not console.is_terminal:
            self._next_line = now + LINE_EVERY
            notify(self.line())

    def say(self, note: str) -> None:
        """Replaces the note below the bar."""
        self.note.plain = note

    def line(self, finished: bool = False) -> str:
        """The state as text: items, rate, time left (or taken), note. Only a complete bar is called done."""
        task, seconds = self._bars.tasks[0], max(time.monotonic() - self._started, 1e-9)
        total, made = f" of {int(task.total):,}" if task.total else "", task.completed - self._skipped
        parts = [f"{task.description}: {int(task.completed):,}{total} {self._unit}", self._rate()]
        if finished:
            complete = not task.total or task.completed >= task.total
            parts.append(f"{'done in' if complete else 'ended after'} {_duration(seconds)}")
        elif task.total and made:
            parts.append(f"{_duration((task.total - task.completed) * seconds / made)} left")
        return ", ".join(part for part in (*parts, self.note.plain) if part)

    def _rate(self) -> str:
        """Items per second since the start; empty without items."""
        seconds = max(time.monotonic() - self._started, 1e-9)
        speed = (self._bars.tasks[0].completed - self._skipped) / seconds
        return f"{speed:,.{0 if speed >= 100 else 1}f} {self._unit}/s" if speed else ""


@contextmanager
def progress(description: str, total: int | None, unit: str = "items") -> Iterator[Bar]:
    """A progress bar on standard error, or lines of text if that is not a terminal."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}", style="cyan"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    bars = Progress(*columns, console=console, expand=True)
    bar = Bar(bars, description, total, unit)
    if console.is_terminal:
        with Live(Group(bars, bar.note), console=console, refresh_per_second=4):
            yield bar
    else:
        yield bar
        notify(bar.line(finished=True))


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
