"""The training loop, the same for every method:

    polyptrace train ours --data DATASET --out RUN

Each step takes a batch of crops, encodes this process's part of it, gathers the vectors of all processes with
gradients, computes the method's loss, and updates the weights. A step depends only on its number, the settings and the
weights, so a run that was interrupted continues from its last checkpoint with the same result.
"""

import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, distributed, nn
from torch.distributed.nn.functional import all_gather
from torch.nn.utils import get_total_norm
from torch.optim import Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, OneCycleLR

from polyptrace.config import Config, as_dict, check_limits, from_dict
from polyptrace.core.console import notify
from polyptrace.core.device import torch_threads
from polyptrace.core.errors import UserError
from polyptrace.core.files import PARTIAL, check_writable, recover
from polyptrace.core.lock import lock
from polyptrace.core.randomness import torch_seed
from polyptrace.data import Dataset
from polyptrace.data.crops.loader import CropLoader
from polyptrace.data.dataset import LabelFree
from polyptrace.encoders import load_encoder, save_encoder
from polyptrace.encoders.encoder import LABEL_USE, OwnEncoder, TrainingRecord, most_labels, scatter_features
from polyptrace.encoders.encoder_folder import ENCODER, encoder_config, training_record
from polyptrace.encoders.preprocess import Normalise
from polyptrace.encoders.weights import fill_network
from polyptrace.methods import METHODS, TrainingMethod, TrainingPlan
from polyptrace.train import run_folder
from polyptrace.train.feed import Loaded, load_batches
from polyptrace.train.hardware import Hardware, choose_hardware, processes, start_fabric
from polyptrace.train.log import TrainingLog
from polyptrace.train.run_folder import SECTIONS, Resumption, TrainingState
from polyptrace.train.stopping import StopRequest

if TYPE_CHECKING:  # Lightning takes seconds to import, and most commands do not need it
    from lightning.fabric import Fabric

#: One-cycle: the share of training in which the learning rate rises.
WARM_UP = 0.1


@dataclass(frozen=True)
class TrainingRun:
    """What the steps of a run need."""

    fabric: "Fabric"
    config: Config
    method: TrainingMethod
    plan: TrainingPlan
    loader: CropLoader
    encoder: OwnEncoder  # what is saved
    learner: nn.Module  # what is called: the encoder, wrapped for several processes and compiled if that is on
    optimiser: Optimizer
    out: Path


def train(config: Config, dataset: Dataset, out: Path, init_from: str | None = None, overwrite: bool = False) -> Path:
    """Trains the method of the settings on a dataset, or resumes; returns the folder of the encoder.

    init_from: a run or encoder whose weights are the initial ones. overwrite: a run that `out` already has is replaced
    when the new one has finished.
    """
    if config.train.method not in METHODS:
        raise UserError(f"train.method: {config.train.method!r} is not a method -> one of {', '.join(METHODS)}")
    for section in SECTIONS:
        check_limits(getattr(config, section), section)
    method = METHODS[config.train.method]
    data = dataset if method.sees_labels(config) else dataset.label_free()
    first = processes(config.train.devices, os.environ).rank == 0  # the process that writes the run folder
    check_writable(out)
    with torch_threads(config.train.threads), lock(out) if first else nullcontext():
        if first:
            recover(out)
        if not (overwrite and (out / run_folder.CONFIG).exists()):
            _train(config, method, data, out, init_from, run_folder.check_run(out, config, data, init_from))
        else:
            new = out.with_name(out.name + PARTIAL)
            resumption = run_folder.check_replacement(new, out, config, data, init_from)
            _train(config, method, data, new, init_from, resumption, out)
            if first and (new / ENCODER).exists():  # it does not if a signal reached another process only
                run_folder.finish_replacement(new, out)
    return out / ENCODER


def _train(
    config: Config,
    method: TrainingMethod,
    data: LabelFree,
    out: Path,
    init_from: str | None,
    resumption: Resumption,
    replaces: Path | None = None,
) -> None:
    if resumption.finished:
        notify(f"{out}: this run has finished")
        return

    stored = data.crops.shape[1]
    size = config.train.crop_size or stored
    if size > stored:
        raise UserError(
            f"train.crop_size: {size} pixels, but the stored crops have {stored}"
            f" -> prepare them with --crops.size {size}, or give a smaller size"
        )
    hardware = choose_hardware(config.train)
    plan = method.plan(data, config)
    trained = plan.length(config.train).steps > 0
    seen = (method.label_use(data, config), method.labels_seen(data, config)) if trained else (LABEL_USE[0], "none")
    label_use, labels = labels_used(*seen, init_from)
    fabric = start_fabric(hardware)
    encoder, init_notes = initial_encoder(method, config, size, init_from, resuming=resumption.checkpoint is not None)
    loader = CropLoader(data.crops, fabric.device, size, config.train.crops, hardware.shared_by)
    learner, optimiser = set_up(fabric, hardware, encoder, plan, config)
    state = TrainingState()
    if resumption.checkpoint:
        state = run_folder.load_checkpoint(resumption.checkpoint, encoder, optimiser)
        init_notes = [f"resuming from step {state.step} ({resumption.checkpoint})"]
    notes = [
        *hardware.reasons,
        *(run_folder.thread_note(out, hardware.accelerator) if resumption.checkpoint else []),
        loader.reason,
        *plan.notes,
        f"labels: {labels}",
        *init_notes,
    ]
    if fabric.is_global_zero:
        run_folder.begin_run(out, config, data, init_from, resumption, state.step, labels, notes, replaces)
        for note in notes:
            notify(note)

    run = TrainingRun(fabric, config, method, plan, loader, encoder, learner, optimiser, out)
    with StopRequest() as stop:
        state, finished = run_steps(run, state, stop)
    if finished and fabric.is_global_zero:
        save_encoder(encoder, out / ENCODER, record=_record(config, label_use, labels, data, state, init_from))
    fabric.barrier()
    stop.deliver()


def run_steps(run: TrainingRun, state: TrainingState, stop: StopRequest) -> tuple[TrainingState, bool]:
    """Trains from `state` to the end, or until a stop signal; returns the state reached and whether it is the end."""
    config, fabric, optimiser = run.config, run.fabric, run.optimiser
    epochs, steps = run.plan.length(config.train)
    schedule = learning_rate_schedule(optimiser, config, steps, state.step)
    saved, saved_time = -1, time.monotonic()
    run.learner.train()
    with TrainingLog(fabric, config, run.out, state, steps, run.plan.batch_size) as log:
        while state.epoch < epochs and state.step < steps and not log.stop:
            epoch = run.plan.epoch(state.epoch, epochs)
            end = min(epoch.steps, state.index + steps - state.step)
            batches = map(epoch.batch, range(state.index, end))
            for loaded in load_batches(batches, run.loader, fabric.global_rank, fabric.world_size):
                torch.manual_seed(torch_seed(config.train.seed, state.step, fabric.global_rank))  # dropout
                torch.backends.cudnn.benchmark = loaded.flat_index is None  # only pays off if shapes do not change

                loss, metrics = step_loss(run.learner, loaded, run.method, config)
                fabric.backward(loss)
                metrics = {"loss": loss, **metrics, "gradient_norm": _gradient_norm(run.encoder)}
                known = {"lr": float(schedule.get_last_lr()[0]), **epoch.metrics(state.index)}
                optimiser.step()
                optimiser.zero_grad()
                schedule.step()

                frames = state.frames + int((loaded.batch.rows >= 0).sum())
                state = TrainingState(state.step + 1, state.epoch, state.index + 1, frames)
                log.step(state, loaded.batch, metrics, known, stop=stop.signal is not None)
                due = time.monotonic() - saved_time > 60 * config.train.checkpoint_minutes
                every = config.train.checkpoint_every
                if fabric.is_global_zero and (due or (every and state.step % every == 0)):
                    log.flush()  # if the loss is not finite, this raises an error before anything is saved
                    _save(run, state)
                    saved, saved_time = state.step, time.monotonic()
                if log.stop:
                    break
            if state.index >= epoch.steps:
                state = replace(state, epoch=state.epoch + 1, index=0)
        log.flush()
        if saved != state.step:
            _save(run, state)
    return state, state.step >= steps


def _gradient_norm(encoder: nn.Module) -> Tensor:
    """The L2 norm of all gradients, on their device."""
    return get_total_norm([weight.grad for weight in encoder.parameters() if weight.grad is not None])


def step_loss(
    learner: nn.Module, loaded: Loaded, method: TrainingMethod, config: Config
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of the whole batch and its metrics, the same in every process."""
    z = learner(loaded.crops, loaded.shape, loaded.flat_index, loaded.mask)  # (B / processes, T, P)
    return method.loss(gather(z), loaded.targets, config)


def gather(part: Tensor) -> Tensor:
    """The parts (B / processes, …) of all processes in order of rank: (B, …); with one process, the part itself.

    Every process computes the loss of the whole batch and receives the gradient of the sum of these equal losses. The
    average of the gradients over processes, which Fabric takes, is then that of the loss.
    """
    if not distributed.is_initialized() or distributed.get_world_size() == 1:
        return part
    return torch.cat(all_gather(part))


class Learner(nn.Module):
    """An encoder with its preprocessing (and augmentation) in front and its projector behind, compiled as one."""

    def __init__(self, encoder: OwnEncoder, augment: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.encoder = encoder
        self.augment = augment
        self.normalise = Normalise(encoder.preprocess)

    def forward(
        self, crops: Tensor, shape: tuple[int, int], flat_index: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Projected tokens (B, 1 + L, P) of the crops (n, S, S, 3) uint8 of all real frames.

        shape: (B, L). If frames are missing, flat_index (n,) is the index of each crop among B * L frames, and mask
        (B, L) is True where there is a frame; otherwise n = B * L.
        """
        pixels = self.normalise.frames(crops)  # (n, 3, S, S)
        if self.augment is not None:
            pixels = self.augment(pixels)
        features = self.encoder.frame_features(self.normalise(pixels))  # (n, F)
        if flat_index is None or mask is None:
            features = features.reshape(*shape, -1)  # (B, L, F)
        else:
            features = scatter_features(features, flat_index, mask)
        return self.encoder.projector(self.encoder.tokens_of_features(features, mask))


def with_architecture(config: Config, init_from: str | None) -> Config:
    """The settings with the architecture of the initial encoder, if it is one of ours: its weights fit no other."""
    initial = encoder_config(init_from) if init_from else None
    if initial is None:
        return config
    shared = [key.name for key in fields(config.encoder)] if initial.kind == "tracklet" else ["backbone"]
    return from_dict({"encoder": {key: value for key, value in initial.encoder.items() if key in shared}}, config)


def initial_encoder(
    method: TrainingMethod, config: Config, size: int, init_from: str | None, *, resuming: bool = False
) -> tuple[OwnEncoder, list[str]]:
    """The encoder before training, and notes for the log: from the settings, with the weights of `init_from`.

    An encoder of the same kind gives all weights. Another kind (SFE for MVE and TPC) gives its backbone. If a
    checkpoint will be loaded, no weights are, which may no longer be available.
    """
    torch.manual_seed(config.train.seed)
    if init_from is None and not resuming:
        return method.encoder(config, size), []
    encoder = method.encoder(replace(config, encoder=replace(config.encoder, weights="none")), size)
    if init_from is None or resuming:
        return encoder, []
    source = load_encoder(init_from)
    seen = f"{init_from} ({training_record(init_from).total_frames:,} frames)"
    if type(source) is type(encoder):
        fill_network(encoder, source.state_dict(), f"--init-from {init_from}")
        return encoder, [f"initial weights: all from {seen}"]
    backbone = getattr(source, "backbone", None)
    if backbone is None:
        raise UserError(f"--init-from {init_from}: an encoder without a backbone -> give a run or an encoder folder")
    fill_network(encoder.backbone, backbone.state_dict(), f"--init-from {init_from}")
    others = ", ".join(sorted({name.partition(".")[0] for name, _ in encoder.named_parameters()} - {"backbone"}))
    return encoder, [f"initial weights: the backbone from {seen}; {others} at random"]


def labels_used(use: str, words: str, init_from: str | None) -> tuple[str, str]:
    """What an encoder saw of polyp labels, as one of `LABEL_USE` and in words.

    `use` and `words` are those of its training; that of its initial weights may have used more, or not say.
    """
    initial = training_record(init_from) if init_from else TrainingRecord()
    if initial == TrainingRecord() or most_labels(use, initial.label_use) == use:
        return use, words
    return initial.label_use, f"{initial.labels or 'not stated'}, for the initial weights"


def set_up(
    fabric: "Fabric", hardware: Hardware, encoder: OwnEncoder, plan: TrainingPlan, config: Config
) -> tuple[nn.Module, Optimizer]:
    """The network and its optimiser on their device, wrapped for several processes and compiled if that is on."""
    learner: nn.Module = Learner(encoder, plan.augment)
    if fabric.world_size > 1 and hardware.accelerator == "cuda":
        from timm.layers.norm_act import convert_sync_batchnorm  # takes seconds to import

        learner = convert_sync_batchnorm(learner)
    learner = learner.to(fabric.device).to(memory_format=torch.channels_last)
    optimiser = {"adamw": AdamW, "adam": Adam}[config.optimiser.name](
        learner.parameters(),
        lr=config.optimiser.lr,
        weight_decay=config.optimiser.weight_decay,
        fused=hardware.accelerator == "cuda",
    )
    if hardware.compiled:
        torch.compiler.reset()  # several runs in one process would silently reach the limit of recompilations
        learner.compile()
    return fabric.setup_module(learner), optimiser


def learning_rate_schedule(optimiser: Optimizer, config: Config, steps: int, step: int) -> LRScheduler:
    """The schedule of a run of `steps` steps, at `step`."""
    schedule: LRScheduler
    if config.optimiser.schedule == "one-cycle":
        total = max(steps, 20)  # torch divides by zero if the warm-up has one step
        schedule = OneCycleLR(optimiser, config.optimiser.lr, total, pct_start=WARM_UP, cycle_momentum=False)
    else:
        schedule = LambdaLR(optimiser, lambda _: 1.0)
    if step:
        schedule.load_state_dict(schedule.state_dict() | {"last_epoch": step - 1, "_step_count": step + 1})
        schedule.step()
    return schedule


def _save(run: TrainingRun, state: TrainingState) -> None:
    if run.fabric.is_global_zero:
        run_folder.save_checkpoint(run.out, state, run.encoder, run.optimiser)


def _record(
    config: Config, label_use: str, labels: str, data: LabelFree, state: TrainingState, init_from: str | None
) -> TrainingRecord:
    """How the encoder was trained, for its config.json and its model card."""
    return TrainingRecord(
        method=config.train.method,
        data=data.name,
        generated=data.info.get("generated"),
        counts=data.info.get("counts", {}),
        label_use=label_use,
        labels=labels,
        steps=state.step,
        frames=state.frames,
        seed=config.train.seed,
        init_from=init_from or "",
        init_frames=training_record(init_from).total_frames if init_from else 0,
        settings=as_dict(config, SECTIONS),
    )
