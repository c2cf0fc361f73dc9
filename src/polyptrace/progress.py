"""Progress bars for long work: how far, how fast, how long still, and a line below for what else there is to say."""

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


class RateColumn(ProgressColumn):
    """Work done per second, in the task's own unit."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        digits = 0 if speed and speed >= 100 else 1
        return Text(f"{speed:,.{digits}f} {task.fields['unit']}/s" if speed else "", style="cyan")


class Bar:
    """One running bar: `advance(n)` and `say("loss 1.23")`."""

    def __init__(self, bars: Progress, description: str, total: int | None, unit: str) -> None:
        self._bars = bars
        self._task = bars.add_task(description, total=total, unit=unit)
        self.note = Text(style="dim")

    def advance(self, amount: int = 1) -> None:
        self._bars.advance(self._task, amount)

    def say(self, note: str) -> None:
        """Shows a line below the bar, in place of the one before."""
        self.note.plain = note


@contextmanager
def progress(description: str, total: int | None, unit: str = "items") -> Iterator[Bar]:
    """A bar on standard error; where that is no terminal, it is printed once at the end."""
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
        console.print()  # the note has no end of line of its own there
