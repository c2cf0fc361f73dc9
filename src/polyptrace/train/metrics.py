"""Figures of a run: metrics.jsonl always, TensorBoard by default, W&B and MLflow where they are asked for."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_file

#: Writes the figures of a step.
Writer = Callable[[int, Mapping[str, float]], None]


class Metrics:
    """Appends the figures of each step to metrics.jsonl and hands them on to the other loggers."""

    def __init__(self, folder: Path, loggers: Sequence[str], step: int, settings: Mapping[str, object]) -> None:
        """`step`: steps already done; what the file holds beyond them belongs to a run that was killed."""
        self.path = folder / "metrics.jsonl"
        cut_back(self.path, step)
        self._file = self.path.open("a", encoding="utf-8")
        self._closers: list[Callable[[], None]] = []
        self._writers = [self._open(name, folder, step, settings) for name in loggers]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        for close in self._closers:
            close()

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        """One line; the file is flushed, so that a reader sees it at once."""
        self._file.write(json.dumps({"step": step, **figures}) + "\n")
        self._file.flush()
        for write in self._writers:
            write(step, figures)

    def sync(self) -> None:
        """Makes sure that what was written survives a power cut: called before each checkpoint."""
        os.fsync(self._file.fileno())

    def _open(self, name: str, folder: Path, step: int, settings: Mapping[str, object]) -> Writer:
        match name:
            case "tensorboard":
                return self._tensorboard(folder, step)
            case "wandb":
                return self._wandb(folder, settings)
            case "mlflow":
                return self._mlflow(folder, settings)
            case _:
                raise UserError(f"--train.loggers: {name!r} is not known -> tensorboard, wandb, mlflow")

    def _tensorboard(self, folder: Path, step: int) -> Writer:
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)
        self._closers.append(writer.close)

        def write(step: int, figures: Mapping[str, float]) -> None:
            for name, value in figures.items():
                writer.add_scalar(name, value, step)

        return write

    def _wandb(self, folder: Path, settings: Mapping[str, object]) -> Writer:
        try:
            import wandb
        except ModuleNotFoundError:
            raise UserError("--train.loggers wandb: not installed -> pip install 'polyptrace[wandb]'") from None
        run = wandb.init(
            dir=folder, project="polyptrace", id=_run_id(folder), name=folder.name, resume="allow", config=settings
        )
        self._closers.append(run.finish)
        return lambda step, figures: run.log(dict(figures), step=step)

    def _mlflow(self, folder: Path, settings: Mapping[str, object]) -> Writer:
        try:
            import mlflow
        except ModuleNotFoundError:
            raise UserError("--train.loggers mlflow: not installed -> pip install 'polyptrace[mlflow]'") from None
        mlflow.set_experiment("polyptrace")
        known = folder / "mlflow-run"  # its id, so that a later start goes on with it
        if known.exists():
            mlflow.start_run(run_id=known.read_text(encoding="utf-8"))
        else:
            known.write_text(mlflow.start_run(run_name=folder.name).info.run_id, encoding="utf-8")
            mlflow.log_params(dict(settings))
        self._closers.append(mlflow.end_run)
        return lambda step, figures: mlflow.log_metrics(dict(figures), step=step)


def cut_back(path: Path, step: int) -> None:
    """Drops the lines after `step`, and a last line that was not written to its end."""
    if not path.exists():
        return
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= step]
    if kept != lines:
        with atomic_file(path) as temporary:
            temporary.write_text("".join(kept), encoding="utf-8")


def _run_id(folder: Path) -> str:
    return "".join(c if c.isalnum() else "-" for c in str(folder.resolve()))[-64:]
