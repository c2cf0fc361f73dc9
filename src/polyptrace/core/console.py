"""What is shown on the terminal: progress bars, and counts in words."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

console = Console(stderr=True)


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """A number with its noun; `plural` where it is not the singular with an s.

    >>> counted(1, "polyp"), counted(1200, "polyp"), counted(2, "query", "queries")
    ('1 polyp', '1,200 polyps', '2 queries')
    """
    return f"{number:,} {singular if number == 1 else plural or f'{singular}s'}"


class RateColumn(ProgressColumn):
    """Items per second, in the unit of the task."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        digits = 0 if speed and speed >= 100 else 1
        return Text(f"{speed:,.{digits}f} {task.fields['unit']}/s" if speed else "", style="cyan")


class Bar:
    """One progress bar: `advance(n)` moves it, `say("loss 1.23")` sets the line below it."""

    def __init__(self, bars: Progress, description: str, total: int | None, unit: str) -> None:
        self._bars = bars
        self._task = bars.add_task(description, total=total, unit=unit)
        self.note = Text(style="dim")

    def advance(self, amount: int = 1) -> None:
        self._bars.advance(self._task, amount)

    def say(self, note: str) -> None:
        """Replaces the line below the bar."""
        self.note.plain = note


@contextmanager
def progress(description: str, total: int | None, unit: str = "items") -> Iterator[Bar]:
    """A progress bar on standard error; if that is not a terminal, it is printed once at the end."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        RateColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    bars = Progress(*columns, console=console, expand=True)
    bar = Bar(bars, description, total, unit)
    with Live(Group(bars, bar.note), console=console, refresh_per_second=4):
        yield bar
    if bar.note.plain and not console.is_terminal:
        console.print()  # without a terminal, the note does not end with a newline
