"""What a run says while it goes: the bar, metrics.jsonl, and the stop when the loss is not finite.

Figures are read one step late, so that a GPU never waits for them: they are copied to the host behind the step that
made them, and looked at when the next step is under way.
"""

import math
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from polyptrace.config import Config, as_dict
from polyptrace.core.console import progress
from polyptrace.core.errors import UserError
from polyptrace.methods import Batch
from polyptrace.train.checkpoint import Progress, latest_checkpoint
from polyptrace.train.metrics import Metrics
from polyptrace.train.run import CHECKPOINTS, SECTIONS

if TYPE_CHECKING:  # it takes seconds to load, and most commands do not need it
    from lightning.fabric import Fabric


@dataclass(frozen=True)
class Pending:
    """The figures of a step that is still being computed."""

    done: Progress
    batch: Batch
    names: list[str]
    values: Tensor  # on the host, complete when `ready` is
    ready: torch.cuda.Event | None
    known: Mapping[str, float]


class Reporter:
    """Reports steps as they finish; a context manager, since it holds files and a bar."""

    def __init__(self, fabric: "Fabric", config: Config, out: Path, steps: int, tracklets: int, done: Progress) -> None:
        """`steps` of so many `tracklets` are the whole run, of which `done` is done."""
        self._fabric, self._config, self._out, self._begun = fabric, config, out, done
        self._steps, self._tracklets = steps, tracklets
        self._pending: Pending | None = None
        self._stack = ExitStack()
        self._metrics: Metrics | None = None

    def __enter__(self) -> Self:
        if self._fabric.is_global_zero:
            settings = {f"{s}.{k}": v for s, keys in as_dict(self._config, SECTIONS).items() for k, v in keys.items()}
            self._metrics = self._stack.enter_context(
                Metrics(self._out, self._config.train.loggers, self._begun.step, settings)
            )
            self._bar = self._stack.enter_context(progress("training", self._steps * self._tracklets, "tracklets"))
            self._bar.skip(self._begun.step * self._tracklets)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def step(self, done: Progress, batch: Batch, figures: Mapping[str, Tensor], known: Mapping[str, float]) -> None:
        """Takes the figures of the step just started; reports the step before."""
        values = torch.stack([figure.detach().to(torch.float32) for figure in figures.values()])
        ready = None
        if values.device.type == "cuda":
            values = values.to("cpu", non_blocking=True)  # pinned
            ready = torch.cuda.Event()
            ready.record()
        before, self._pending = self._pending, Pending(done, batch, list(figures), values, ready, known)
        self._report(before)

    def flush(self) -> None:
        """Reports the last step, which waits for it."""
        before, self._pending = self._pending, None
        self._report(before)
        if self._metrics:
            self._metrics.sync()

    def _report(self, pending: Pending | None) -> None:
        if pending is None:
            return
        if pending.ready is not None:
            pending.ready.synchronize()
        figures = dict(zip(pending.names, pending.values.tolist(), strict=True))
        if not math.isfinite(figures["loss"]):
            raise UserError(self._not_finite(pending, figures["loss"]))
        if self._metrics is None:
            return
        figures |= pending.known
        self._bar.advance(self._tracklets)
        self._bar.say(_note(figures))
        if pending.done.step % self._config.train.log_every == 0:
            where = {"epoch": pending.done.epoch, "frames": pending.done.frames}
            self._metrics.write(pending.done.step, where | figures)

    def _not_finite(self, pending: Pending, loss: float) -> str:
        last = latest_checkpoint(self._out / CHECKPOINTS)
        tracklets = ", ".join(map(str, pending.batch.tracklet.tolist()))
        return (
            f"step {pending.done.step} (epoch {pending.done.epoch}): the loss is {loss} -> try a lower --optimiser.lr"
            f" (now {pending.known['lr']:g}), or --train.precision float32, or pretrained --encoder.weights; the last"
            f" good checkpoint is {last or 'none yet'}; the batch's tracklets: {tracklets}"
        )


def _note(figures: Mapping[str, float]) -> str:
    parts = [f"loss {figures['loss']:.3f}"]
    if "tau" in figures:
        parts.append(f"τ {figures['tau']:.2f}")
    if "condition" in figures:
        parts.append(f"condition {figures['condition']:.0%}")
    return ", ".join(parts)
