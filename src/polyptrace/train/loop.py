"""The training loop, the same for every method:

    polyptrace train ours --data DATASET --out RUN

Each step: a batch of crop rows, the encoder on this process's part of it, all processes' vectors gathered with
gradients, the method's loss, one step of the optimiser. What a step does depends on its number, the settings and the
weights alone: a run that was killed goes on from its last checkpoint as if nothing had happened.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer

from polyptrace.config import Config, as_dict
from polyptrace.core.console import console, counted
from polyptrace.core.errors import UserError
from polyptrace.core.randomness import torch_seed
from polyptrace.data import Dataset
from polyptrace.encoders import OwnEncoder, fill_network, load_encoder, save_encoder
from polyptrace.methods import METHODS, Batch, Epoch, Method, Plan
from polyptrace.train.checkpoint import Progress, load_checkpoint, save_checkpoint
from polyptrace.train.feed import Feed, Loaded
from polyptrace.train.gather import gather
from polyptrace.train.hardware import Hardware, choose_hardware, start_fabric
from polyptrace.train.learner import Learner
from polyptrace.train.reporter import Reporter
from polyptrace.train.run import CHECKPOINTS, ENCODER, SECTIONS, begin_run, check_run, thread_note
from polyptrace.train.schedule import learning_rate

if TYPE_CHECKING:  # it takes seconds to load, and most commands do not need it
    from lightning.fabric import Fabric


@dataclass(frozen=True)
class Job:
    """All that the steps of a run need."""

    fabric: "Fabric"
    config: Config
    method: Method
    plan: Plan
    feed: Feed
    encoder: OwnEncoder  # what is kept
    learner: nn.Module  # what is called: the encoder, wrapped for several processes and compiled where that is on
    optimiser: Optimizer
    out: Path


def train(config: Config, dataset: Dataset, out: Path, init_from: str | None = None) -> Path:
    """Trains the method of the settings on a dataset, or goes on doing so; returns the folder of the encoder."""
    if config.train.method not in METHODS:
        raise UserError(f"train.method: {config.train.method!r} is no method -> one of {', '.join(METHODS)}")
    method = METHODS[config.train.method]
    data = dataset if method.sees_labels(config) else dataset.label_free()
    checkpoint = check_run(out, config, data, init_from)
    if (out / ENCODER).exists():
        console.print(f"{out}: this run has finished", highlight=False)
        return out / ENCODER

    if config.train.threads:
        torch.set_num_threads(config.train.threads)
    hardware = choose_hardware(config.train)
    fabric = start_fabric(hardware)
    size = config.train.crop_size or data.crops.shape[1]
    encoder = _encoder(method, config, size, checkpoint, init_from)
    plan = method.plan(data, config)
    rank, processes = fabric.global_rank, fabric.world_size
    where, compiled, shared_by = config.train.crops, hardware.compiled, hardware.shared_by
    feed = Feed(data.crops, size, fabric.device, where, rank, processes, compiled, shared_by)
    learner, optimiser = _setup(fabric, hardware, encoder, config)
    done = load_checkpoint(checkpoint, encoder, optimiser) if checkpoint else Progress()
    notes = [
        *hardware.reasons,
        *thread_note(out, hardware.accelerator),
        feed.reason,
        *plan.remarks,
        f"labels: {plan.labels}",
    ]
    if fabric.is_global_zero:
        begin_run(out, config, data, init_from, done.step, plan.labels, notes)
        for note in notes + ([f"going on from step {done.step} ({checkpoint})"] if checkpoint else []):
            console.print(note, highlight=False, soft_wrap=True)

    done = run_steps(Job(fabric, config, method, plan, feed, encoder, learner, optimiser, out), done)
    if fabric.is_global_zero:
        trained = _sentence(config, plan, data.path, done)
        save_encoder(encoder, out / ENCODER, trained=trained, details={"settings": as_dict(config, SECTIONS)})
    fabric.barrier()
    return out / ENCODER


def run_steps(job: Job, done: Progress) -> Progress:
    """All steps from `done` to the end, with a checkpoint every so often and one at the end."""
    config, optimiser, processes = job.config, job.optimiser, job.fabric.world_size
    epochs, total = _length(job.plan, config)
    job.learner.train()
    with Reporter(job.fabric, config, job.out, total, len(job.plan.epoch(0, 1).batch(0).rows), done) as reporter:
        while done.epoch < epochs and done.step < total:
            epoch = job.plan.epoch(done.epoch, epochs)
            for loaded in job.feed.stream(_remaining(epoch, done.index, total - done.step)):
                rate = learning_rate(done.step / total, config.optimiser.lr, config.optimiser.schedule)
                for group in optimiser.param_groups:
                    group["lr"] = rate
                torch.manual_seed(torch_seed(config.train.seed, done.step, job.fabric.global_rank))  # dropout
                torch.backends.cudnn.benchmark = loaded.place is None  # a search pays for shapes that stay the same

                loss, figures = step_loss(job.learner, loaded, job.method, config)
                job.fabric.backward(loss * processes)  # processes average gradients; see `gather`
                optimiser.step()
                optimiser.zero_grad()

                frames = int((loaded.batch.rows >= 0).sum())
                done = Progress(done.step + 1, done.epoch, done.index + 1, done.frames + frames)
                reporter.step(done, loaded.batch, {"loss": loss, **figures}, {"lr": rate, **epoch.notes})
                if done.step % config.train.checkpoint_every == 0:
                    reporter.flush()  # a loss that is not finite stops here, before anything is saved
                    _save(job, done)
            if done.index >= epoch.steps:
                done = replace(done, epoch=done.epoch + 1, index=0)
        reporter.flush()
        _save(job, done)
    return done


def step_loss(learner: nn.Module, loaded: Loaded, method: Method, config: Config) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of the whole batch and its figures, the same in every process."""
    z = learner(loaded.crops, loaded.shape, loaded.place, loaded.mask)  # (B / processes, T, P)
    return method.loss(gather(z), loaded.targets, config)


def _encoder(method: Method, config: Config, size: int, checkpoint: Path | None, init_from: str | None) -> OwnEncoder:
    """The encoder as training begins: from its settings, with the weights of another where one is given."""
    torch.manual_seed(config.train.seed)
    if checkpoint or init_from:  # weights come from there
        config = replace(config, encoder=replace(config.encoder, weights="none"))
    encoder = method.encoder(config, size)
    if init_from and not checkpoint:
        fill_network(encoder, load_encoder(init_from).state_dict(), f"--init-from {init_from}")
    return encoder


def _setup(fabric: "Fabric", hardware: Hardware, encoder: OwnEncoder, config: Config) -> tuple[nn.Module, Optimizer]:
    """The network and its optimiser on their device, wrapped for several processes and compiled where that is on."""
    learner: nn.Module = Learner(encoder, config.train.method == "sfe" and config.views.augment)
    if fabric.world_size > 1 and hardware.accelerator == "cuda":
        from timm.layers.norm_act import convert_sync_batchnorm  # here: it takes seconds to load

        learner = convert_sync_batchnorm(learner)
    learner = learner.to(fabric.device).to(memory_format=torch.channels_last)
    kind = {"adamw": AdamW, "adam": Adam}[config.optimiser.name]
    optimiser = kind(
        learner.parameters(),
        lr=config.optimiser.lr,
        weight_decay=config.optimiser.weight_decay,
        fused=hardware.accelerator == "cuda",
    )
    if hardware.compiled:
        torch.compiler.reset()  # many runs in one process would reach the limit of recompilations, silently
        learner.compile()
    return fabric.setup_module(learner), optimiser


def _length(plan: Plan, config: Config) -> tuple[int, int]:
    """Epochs and steps of the whole run: as many epochs as set, or as many frames, where that is set."""
    first = plan.epoch(0, 1)
    if not config.train.frames:
        return config.train.epochs, plan.steps(config.train.epochs)
    steps = math.ceil(config.train.frames / int((first.batch(0).rows >= 0).sum()))
    epochs = math.ceil(steps / first.steps)
    while plan.steps(epochs) < steps:  # epochs are not all as long as the first
        epochs += 1
    while epochs > 1 and plan.steps(epochs - 1) >= steps:
        epochs -= 1
    return epochs, steps


def _remaining(epoch: Epoch, index: int, most: int) -> Iterator[Batch]:
    for step in range(index, min(epoch.steps, index + most)):
        yield epoch.batch(step)


def _save(job: Job, done: Progress) -> None:
    if job.fabric.is_global_zero:
        save_checkpoint(job.out / CHECKPOINTS, done, job.encoder, job.optimiser)
    job.fabric.barrier()


def _sentence(config: Config, plan: Plan, data: Path, done: Progress) -> str:
    """How the encoder was trained, for its model card."""
    return (
        f"{config.train.method}, {counted(done.step, 'step')} ({counted(done.frames, 'frame')}) on {data.name},"
        f" seed {config.train.seed}; polyp labels: {plan.labels}"
    )
