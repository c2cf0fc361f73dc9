"""Progress bars for long work: how far, how fast, how long still; quiet where nobody watches."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
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
        return Text(f"{speed:,.1f} {task.fields['unit']}/s" if speed else "", style="cyan")


class Bar:
    """One running bar: `advance(n)` and `say("loss 1.23")`."""

    def __init__(self, progress: Progress, description: str, total: int | None, unit: str) -> None:
        self._progress = progress
        self._task = progress.add_task(description, total=total, unit=unit, note="")

    def advance(self, amount: int = 1) -> None:
        self._progress.advance(self._task, amount)

    def say(self, note: str) -> None:
        self._progress.update(self._task, note=note)


@contextmanager
def progress(description: str, total: int | None, unit: str = "items") -> Iterator[Bar]:
    """A bar on standard error; where that is no terminal, one line at the end."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        RateColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=console, refresh_per_second=4) as bars:
        yield Bar(bars, description, total, unit)
