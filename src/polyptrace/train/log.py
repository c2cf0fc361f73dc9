"""The log of a run: the progress bar, metrics.jsonl and other loggers, and the stop if the loss is not finite.

Metrics are read one step late, so that a GPU never waits for them: they are copied to the host behind the step that
computed them and read while the next step is running.
"""

import json
import math
import os
import resource
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, distributed

from polyptrace.config import Config, as_dict
from polyptrace.core.console import progress
from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_file
from polyptrace.methods import Batch
from polyptrace.train.run_folder import METRICS, SECTIONS, TENSORBOARD, TrainingState, last_checkpoint

if TYPE_CHECKING:  # Lightning takes seconds to import, and most commands do not need it
    from lightning.fabric import Fabric

#: Writes the metrics of a step.
Writer = Callable[[int, Mapping[str, float]], None]


@dataclass(frozen=True)
class PendingStep:
    """A step that may still be running on the GPU."""

    state: TrainingState  # after the step
    batch: Batch
    names: list[str]
    values: Tensor  # on the host, complete when `ready` is
    ready: torch.cuda.Event | None
    known: Mapping[str, float]  # metrics that need no computation


class TrainingLog:
    """Logs steps as they finish. A context manager, because it holds files and a progress bar."""

    def __init__(
        self, fabric: "Fabric", config: Config, out: Path, state: TrainingState, steps: int, tracklets: int
    ) -> None:
        """A run of `steps` batches of `tracklets` each that begins or resumes at `state`."""
        self._fabric, self._config, self._out = fabric, config, out
        self._start, self._steps, self._tracklets = state, steps, tracklets
        self._pending: PendingStep | None = None
        self._stack = ExitStack()
        self._writers: list[Writer] = []  # besides metrics.jsonl
        self._stop_requested = False  # known earlier in a process that has just written a checkpoint
        self.stop = False  # whether any process received a stop signal; equal in all processes

    def __enter__(self) -> Self:
        self._clock, self._frames = time.monotonic(), self._start.frames
        if self._fabric.is_global_zero:
            discard_after(self._out, self._start.step)
            self._metrics = self._stack.enter_context((self._out / METRICS).open("a", encoding="utf-8"))
            # TensorBoard's thread passes a full disk on to the next call; without this it prints a traceback as well
            self._stack.callback(setattr, threading, "excepthook", threading.excepthook)
            threading.excepthook = _ignore_os_errors
            for name in self._config.train.loggers:
                self._writers.append(self._open_logger(name))
            self._bar = self._stack.enter_context(progress("training", self._steps * self._tracklets, "tracklets"))
            self._bar.skip(self._start.step * self._tracklets)
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def step(
        self,
        state: TrainingState,
        batch: Batch,
        metrics: Mapping[str, Tensor],
        known: Mapping[str, float],
        stop: bool,
    ) -> None:
        """Takes the metrics of the step just launched, and logs the step before it. `stop`: this process should."""
        values = torch.stack([value.detach().to(torch.float32) for value in metrics.values()])
        requests = values.new_full((1,), float(stop))
        if self._fabric.world_size > 1:
            distributed.all_reduce(requests)
        else:
            self.stop = stop  # at once, without waiting for the step
        values = torch.cat([values, requests])
        ready = None
        if values.device.type == "cuda":
            values = values.to("cpu", non_blocking=True)  # pinned
            ready = torch.cuda.Event()
            ready.record()
        previous, self._pending = self._pending, PendingStep(state, batch, list(metrics), values, ready, known)
        self._log(previous)
        self.stop = self.stop or self._stop_requested

    def flush(self) -> None:
        """Logs the last step, for which it waits, and makes sure that the metrics survive a power failure."""
        previous, self._pending = self._pending, None
        self._log(previous)
        if self._fabric.is_global_zero:
            os.fsync(self._metrics.fileno())

    def _log(self, pending: PendingStep | None) -> None:
        if pending is None:
            return
        if pending.ready is not None:
            pending.ready.synchronize()
        *values, requests = pending.values.tolist()
        metrics = dict(zip(pending.names, values, strict=True))
        self._stop_requested = self._stop_requested or requests > 0
        if not math.isfinite(metrics["loss"]):
            raise UserError(self._not_finite(pending, metrics["loss"]))
        if not self._fabric.is_global_zero:
            return
        metrics |= pending.known
        self._bar.advance(self._tracklets)
        self._bar.say(_summary(metrics))
        if pending.state.step % self._config.train.log_every == 0:
            progress = {"epoch": pending.state.epoch, "frames": pending.state.frames}
            self._write(pending.state.step, progress | metrics | self._speed(pending.state.frames))

    def _speed(self, frames: int) -> dict[str, float]:
        """Wall-clock time (Unix), frames per second since the last line, and peak memory."""
        now = time.monotonic()
        rate = (frames - self._frames) / max(now - self._clock, 1e-9)
        self._clock, self._frames = now, frames
        memory = peak_memory(self._fabric.device)
        return {"time": round(time.time(), 3), "frames_per_second": round(rate, 2), "memory_gib": round(memory, 3)}

    def _write(self, step: int, metrics: Mapping[str, float]) -> None:
        self._metrics.write(json.dumps({"step": step, **metrics}) + "\n")
        self._metrics.flush()  # visible to readers at once
        for write in self._writers:
            write(step, metrics)

    def _not_finite(self, pending: PendingStep, loss: float) -> str:
        last = last_checkpoint(self._out)
        tracklets = ", ".join(map(str, pending.batch.tracklet.tolist()))
        return (
            f"step {pending.state.step} (epoch {pending.state.epoch}): the loss is {loss} -> try a lower"
            f" --optimiser.lr (now {pending.known['lr']:g}), --train.precision float32, or pretrained"
            f" --encoder.weights; the last good checkpoint is {last or 'none'}; tracklets of the batch: {tracklets}"
        )

    def _open_logger(self, name: str) -> Writer:
        loggers = {"tensorboard": self._tensorboard, "wandb": self._wandb, "mlflow": self._mlflow}
        if name not in loggers:
            raise UserError(f"--train.loggers: {name!r} is not known -> {', '.join(loggers)}")
        settings = {f"{s}.{k}": v for s, keys in as_dict(self._config, SECTIONS).items() for k, v in keys.items()}
        try:
            return loggers[name](settings)
        except ModuleNotFoundError as error:
            raise UserError(f"--train.loggers {name}: {error} -> pip install 'polyptrace[{name}]'") from None

    def _tensorboard(self, _settings: Mapping[str, object]) -> Writer:
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter(str(self._out / TENSORBOARD), purge_step=self._start.step + 1)
        self._stack.callback(_close_quietly, writer.close)

        def write(step: int, metrics: Mapping[str, float]) -> None:
            for name, value in metrics.items():
                writer.add_scalar(name, value, step)

        return write

    def _wandb(self, settings: Mapping[str, object]) -> Writer:
        import wandb

        name, run_id = self._out.name, "".join(c if c.isalnum() else "-" for c in str(self._out.resolve()))[-64:]
        run = wandb.init(dir=self._out, project="polyptrace", id=run_id, name=name, resume="allow", config=settings)
        self._stack.callback(run.finish)
        return lambda step, metrics: run.log(dict(metrics), step=step)

    def _mlflow(self, settings: Mapping[str, object]) -> Writer:
        import mlflow

        mlflow.set_experiment("polyptrace")
        run_id = self._out / "mlflow-run"  # so that a resumed run is the same run in MLflow
        if run_id.exists():
            mlflow.start_run(run_id=run_id.read_text(encoding="utf-8"))
        else:
            run_id.write_text(mlflow.start_run(run_name=self._out.name).info.run_id, encoding="utf-8")
            mlflow.log_params(dict(settings))
        self._stack.callback(mlflow.end_run)
        return lambda step, metrics: mlflow.log_metrics(dict(metrics), step=step)


def discard_after(out: Path, step: int) -> None:
    """Removes the lines of metrics.jsonl after `step`, which will be computed again, and damaged lines."""
    path = out / METRICS
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    kept = [line for line in lines if line.endswith(b"\n") and _step(line) <= step]
    if kept != lines:
        with atomic_file(path) as temporary:
            temporary.write_bytes(b"".join(kept))


def _step(line: bytes) -> float:
    """The step of a line of metrics.jsonl; infinity if the line is damaged."""
    try:
        step = json.loads(line)["step"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return math.inf
    return step if isinstance(step, int) else math.inf


def peak_memory(device: torch.device) -> float:
    """Peak memory in GiB: of the GPU, or of the process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # Linux gives KiB


def _ignore_os_errors(error: threading.ExceptHookArgs) -> None:
    if not isinstance(error.exc_value, OSError):
        threading.__excepthook__(error)


def _summary(metrics: Mapping[str, float]) -> str:
    formats = {"loss": "loss {:.3f}", "tau": "τ {:.2f}", "condition": "condition {:.0%}"}
    return ", ".join(text.format(metrics[name]) for name, text in formats.items() if name in metrics)


def _close_quietly(close: Callable[[], None]) -> None:
    with suppress(OSError):  # the write that failed first has reported it
        close()
