"""The folder of a run: its settings, its checkpoints, and whether a command may resume it.

config.toml        all settings
environment.json   versions, data, hardware, each start
metrics.jsonl      one line per step
checkpoints/       the last two
encoder/           the trained encoder, when the run has finished

A checkpoint is one safetensors file, written atomically. The tensors are the weights and buffers of the encoder
(`model.NAME`) and the state of the optimiser (`optimiser.INDEX.KEY`); the header has the training state as JSON. Random
generators need no state, because every step seeds its own.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.optim import Optimizer

from polyptrace.config import Config, as_toml, difference, read_config
from polyptrace.core.errors import UserError
from polyptrace.core.files import (
    PARTIAL,
    atomic_file,
    move_folder,
    provenance,
    read_json,
    refuse_changes,
    remove,
    remove_temporary_files,
    write_json,
)
from polyptrace.core.schema import from_json
from polyptrace.data.dataset import LabelFree, data_hash
from polyptrace.encoders.encoder_folder import CHECKPOINTS, ENCODER, training_record
from polyptrace.encoders.weights import write_safetensors

#: The sections of the settings that training uses.
SECTIONS = ("supervision", "views", "loss", "encoder", "optimiser", "train")

CONFIG, ENVIRONMENT, METRICS, TENSORBOARD = "config.toml", "environment.json", "metrics.jsonl", "tensorboard"
NEW = ".new"  # marks a run that replaces another one
#: Checkpoints that are kept.
KEPT = 2
CHECKPOINT_ADVICE = "remove it; training then resumes from the previous checkpoint"


@dataclass(frozen=True)
class _Data:
    """The dataset of a run."""

    path: str
    tracklets: str = ""  # SHA-256 of its table of tracklets
    source: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Start:
    """One start of a run."""

    time: str
    step: int
    threads: int
    notes: list[str]
    made_by: dict[str, Any]


@dataclass(frozen=True)
class Environment:
    """The fields of `environment.json`."""

    data: _Data
    init_from: str | None = None
    init_frames: int = 0  # frames seen by the run that it was initialised from
    labels: str = ""
    starts: list[_Start] = field(default_factory=list)
    version: Literal[1] = 1


def read_environment(run: Path) -> Environment:
    """`environment.json` of a run folder, checked."""
    path = run / ENVIRONMENT
    return from_json(Environment, read_json(path), str(path), "restore the file, or train again with --overwrite")


@dataclass(frozen=True)
class Resumption:
    """What a command does with its run folder: resume from a checkpoint, begin anew (no checkpoint), or nothing."""

    checkpoint: Path | None = None
    finished: bool = False


def check_run(out: Path, config: Config, data: LabelFree, init_from: str | None) -> Resumption:
    """How a command continues in `out`; an error if another command's run would be changed.

    Other settings are accepted as long as there is no checkpoint, and for more epochs or frames of a run that has
    finished.
    """
    if not (out / CONFIG).exists():
        if out.exists() and any(not _is_leftover(path) for path in out.iterdir()):
            raise UserError(f"{out}: not empty, and not a run folder -> give another --out")
        return Resumption()
    checkpoint = last_checkpoint(out)
    if checkpoint is None:
        return Resumption()
    old, finished = read_config(out / CONFIG), (out / ENCODER).exists()
    longer = finished and _is_longer(old, config)
    if longer:
        old = replace(old, train=replace(old.train, epochs=config.train.epochs, frames=config.train.frames))
    changed = difference(old, config, SECTIONS)
    began = read_environment(out)
    if began.data.tracklets != data_hash(data):
        before = ", ".join(began.data.source.get("joined", [began.data.path]))
        changed.append(f"data: not the dataset that this run began with ({before})")
    if began.init_from != init_from:
        changed.append(f"init-from: {began.init_from} -> {init_from}")
    refuse_changes(
        f"{out}: this run was started",
        changed,
        f"to resume it, use its own settings; to start anew, pass --overwrite, or --out ANOTHER --init-from {out}",
    )
    return Resumption(checkpoint, finished and not longer)


def check_replacement(new: Path, out: Path, config: Config, data: LabelFree, init_from: str | None) -> Resumption:
    """How the run in `new`, which will replace the run in `out`, continues: other settings begin it anew.

    `NEW` marks it. At the end the two runs change places, so that a kill may leave the old one in `new`.
    """
    if (out / NEW).exists() or not (new / NEW).exists():
        return Resumption()
    try:
        return check_run(new, config, data, init_from)
    except UserError:
        return Resumption()


def begin_run(
    out: Path,
    config: Config,
    data: LabelFree,
    init_from: str | None,
    resumption: Resumption,
    step: int,
    labels: str,
    notes: Sequence[str],
    replaces: Path | None = None,
) -> None:
    """Records the start of a run, or one more start of a run that is resumed after `step` steps.

    `replaces` is the run that it will replace, which is kept until then.
    """
    if replaces and resumption.checkpoint is None:
        remove(out)
        remove(replaces / NEW)
        out.mkdir()
        (out / NEW).touch()
    known = read_environment(out) if (out / CONFIG).exists() else None
    remove_temporary_files(out)  # of an interrupted start
    remove(out / ENCODER)  # of a run that is continued for longer
    environment = known if resumption.checkpoint else None
    if environment is None:
        for name in (CHECKPOINTS, TENSORBOARD, "mlflow-run"):
            remove(out / name)
        used = _Data(str(data.path), data_hash(data), data.info.get("source", {}))
        frames = training_record(init_from).total_frames if init_from else 0
        environment = Environment(used, init_from, frames, labels)
    now = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    start = _Start(now, step, torch.get_num_threads(), list(notes), provenance())
    starts = [*(known.starts if known else []), start]
    write_json(out / ENVIRONMENT, asdict(replace(environment, starts=starts)))
    with atomic_file(out / CONFIG) as temporary:  # last: it marks the folder as a run
        temporary.write_text(as_toml(config, SECTIONS), encoding="utf-8")


def finish_replacement(new: Path, out: Path) -> None:
    """Puts a finished run in the place of the run in `out`, which is removed."""
    if (new / NEW).exists():
        move_folder(new, out)
    remove(new)
    remove(out / NEW)


def thread_note(out: Path, accelerator: str) -> list[str]:
    """A note for the log if a run on a CPU is resumed with another number of threads than it began with."""
    if accelerator != "cpu":
        return []
    starts, now = read_environment(out).starts, torch.get_num_threads()
    before = starts[0].threads if starts else now
    if before == now:
        return []
    return [f"threads: {now}, but the run began with {before}: weights differ in the last bits (--train.threads)"]


@dataclass(frozen=True)
class TrainingState:
    """How far a run is. The next batch is number `index` of `epoch`."""

    step: int = 0  # steps done
    epoch: int = 0
    index: int = 0  # steps done in this epoch
    frames: int = 0  # frames seen

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < 0:
                raise ValueError(f"{name}: {value} is negative")


def save_checkpoint(run: Path, state: TrainingState, encoder: nn.Module, optimiser: Optimizer) -> Path:
    """Writes a checkpoint of a run and removes all but the last two; weights that are not finite are refused."""
    tensors = {f"model.{name}": tensor for name, tensor in encoder.state_dict().items()}
    for index, values in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{index}.{key}": value for key, value in values.items()}
    on_host = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    broken = [n for n, t in on_host.items() if t.is_floating_point() and not bool(t.isfinite().all())]
    if broken:
        raise UserError(
            f"step {state.step}: {len(broken)} tensors are not finite ({broken[0]} is the first), so no checkpoint is"
            f" written -> try a lower --optimiser.lr; the last good checkpoint is {last_checkpoint(run) or 'none'}"
        )
    folder = run / CHECKPOINTS
    path = folder / f"step-{state.step:08d}.safetensors"
    try:
        with atomic_file(path) as temporary:
            write_safetensors(temporary, on_host, {"state": json.dumps(asdict(state))})
    except OSError as error:
        previous = last_checkpoint(run)
        raise UserError(
            f"{path}: the checkpoint cannot be written ({error}) -> free disk space and run the same command again; it"
            f" resumes from {previous.name if previous else 'the beginning'}"
        ) from None
    for old in sorted(folder.glob("step-*.safetensors"))[:-KEPT]:
        old.unlink()
    for leftover in folder.glob(".tmp*"):  # safetensors' temporary files, if it was killed
        leftover.unlink()
    return path


def last_checkpoint(run: Path) -> Path | None:
    """The newest checkpoint of a run, if there is one."""
    return max((run / CHECKPOINTS).glob("step-*.safetensors"), default=None)


def load_checkpoint(path: Path, encoder: nn.Module, optimiser: Optimizer) -> TrainingState:
    """Restores weights, buffers and the state of the optimiser; returns how far the run was."""
    model: dict[str, Tensor] = {}
    states: dict[int, dict[str, Tensor]] = {}
    try:
        with safe_open(path, "pt") as file:
            state = from_json(TrainingState, json.loads(file.metadata()["state"]), str(path), CHECKPOINT_ADVICE)
            for name in file.keys():  # noqa: SIM118
                kind, _, rest = name.partition(".")
                if kind == "model":
                    model[rest] = file.get_tensor(name)
                else:
                    index, _, key = rest.partition(".")
                    states.setdefault(int(index), {})[key] = file.get_tensor(name)
        encoder.load_state_dict(model)
        optimiser.load_state_dict({"state": states, "param_groups": optimiser.state_dict()["param_groups"]})
        for weight, values in optimiser.state.items():
            for key, value in values.items():
                if key != "step":  # fused optimisers require moments in the memory format of their weight
                    values[key] = torch.empty_like(weight, dtype=value.dtype).copy_(value.view(weight.shape))
    except torch.OutOfMemoryError:
        raise
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise UserError(f"{path}: not a complete checkpoint ({error}) -> {CHECKPOINT_ADVICE}") from None
    return state


def _is_longer(old: Config, new: Config) -> bool:
    """Whether the new settings train for more epochs, or for more frames."""
    if old.train.frames or new.train.frames:
        return 0 < old.train.frames < new.train.frames
    return old.train.epochs < new.train.epochs


def _is_leftover(path: Path) -> bool:
    """Whether a file may be left by a start that was killed before it had recorded its run."""
    return path.name in (ENVIRONMENT, NEW) or (path.name.startswith(".") and PARTIAL in path.name)
