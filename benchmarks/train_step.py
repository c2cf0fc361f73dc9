"""The time of a training step: ours, a plain one and a hand-tuned one. About a minute on a GPU.

The step is the paper's: 60 tracklets x 8 frames x 232 px, ResNet-50, three transformer layers, the loss at both levels.

    plain        float32 with TF32, NCHW, eager, the batch copied from the host
    hand-tuned   bf16, channels last, compiled, fused AdamW, one batch that stays on the GPU, no loop: the upper limit
    ours         `polyptrace.train.train`: sampler, data, loss, loop, log; crops on the GPU
    ours (host)  the same with the crops in the memory map, pinned and read ahead
"""

import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.random_dataset import write_tracklets
from benchmarks.result import Result, Row
from benchmarks.timing import now
from polyptrace.config import Config, Encoder, Supervision, Train
from polyptrace.data import Dataset
from polyptrace.encoders import TrackletEncoder
from polyptrace.losses import noise_aware, noise_aware_frames
from polyptrace.train import train
from polyptrace.train.loop import Learner


@dataclass(frozen=True)
class Scale:
    """The size of the measurement."""

    bags: int = 12
    bag_size: int = 4
    length: int = 8
    size: int = 232
    encoder: Encoder = field(default_factory=lambda: Encoder(weights="none"))
    videos: int = 10
    tracklets_per_video: int = 30
    steps: int = 50
    timed: int = 20  # steps of the plain and the hand-tuned loop

    @property
    def frames(self) -> int:
        """Frames in a step."""
        return self.bags * (1 + self.bag_size) * self.length


TINY = Scale(
    bags=3,
    bag_size=2,
    length=4,
    size=32,
    encoder=Encoder("test_resnet", "none", width=16, layers=1, heads=2, feed_forward=16, projection=8),
    videos=2,
    tracklets_per_video=9,
    steps=12,
    timed=2,
)


def make_dataset(folder: Path, scale: Scale) -> Dataset:
    """A dataset folder of random crops."""
    count = scale.videos * scale.tracklets_per_video
    folder.mkdir()
    shape = (count * scale.length, scale.size, scale.size, 3)
    np.save(folder / "crops.npy", np.random.default_rng(0).integers(0, 256, shape, np.uint8))
    position = np.tile(np.arange(scale.tracklets_per_video) * 4 * scale.length, scale.videos)
    return write_tracklets(
        folder,
        np.arange(count * scale.length).reshape(count, scale.length),
        unit=np.full(count, "tracklet", object),
        video=np.repeat([f"v{i}" for i in range(scale.videos)], scale.tracklets_per_video).astype(object),
        track=np.arange(count),
        position=position,
        last=position + 4 * (scale.length - 1),
    )


def both_levels(z: Tensor, scale: Scale) -> Tensor:
    """The paper's loss of projected tokens (B, T, P)."""
    bags = z.float().reshape(scale.bags, 1 + scale.bag_size, *z.shape[1:])
    frames = noise_aware_frames(bags[:, 0, 1:], bags[:, 1:, 1:])
    return noise_aware(bags[:, 0, 0], bags[:, 1:, 0]) + frames


def plain_step(scale: Scale, device: torch.device) -> Callable[[Tensor], None]:
    """A straightforward step: float32 with TF32, NCHW, eager; the batch (B, L, 3, S, S) comes from the host."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    encoder = TrackletEncoder(**asdict(scale.encoder), size=scale.size).to(device).train()
    optimiser = torch.optim.AdamW(encoder.parameters(), lr=1e-5, weight_decay=1e-4)

    def step(batch: Tensor) -> None:
        frames = (batch.to(device).float() / 255 - 0.45) / 0.225
        loss = both_levels(encoder.projector(encoder.tokens(frames)), scale)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def hand_tuned_step(scale: Scale, device: torch.device) -> Callable[[], None]:
    """The fastest step: bf16, channels last, compiled, fused, one batch on the GPU, no loop."""
    on_gpu = device.type == "cuda"
    encoder = TrackletEncoder(**asdict(scale.encoder), size=scale.size)
    learner = Learner(encoder).to(device).to(memory_format=torch.channels_last).train()
    if on_gpu:
        torch.backends.cudnn.benchmark = True
        learner.compile()
    optimiser = torch.optim.AdamW(learner.parameters(), lr=1e-5, weight_decay=1e-4, fused=on_gpu)
    crops = torch.randint(0, 256, (scale.frames, scale.size, scale.size, 3), dtype=torch.uint8, device=device)
    shape = (scale.frames // scale.length, scale.length)

    def step() -> None:
        with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu):
            z = learner(crops, shape)
        loss = both_levels(z, scale)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()

    return step


def time_steps(step: Callable[[], None], count: int, device: torch.device) -> tuple[float, float]:
    """Milliseconds per step after a warm-up, and the peak GPU memory in GiB."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    for _ in range(max(1, count // 3)):
        step()
    begun = now(device)
    for _ in range(count):
        step()
    return 1000 * (now(device) - begun) / count, gpu_memory(device)


def gpu_memory(device: torch.device) -> float:
    """Peak GPU memory in GiB since it was last reset."""
    return torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else 0.0


def time_ours(dataset: Dataset, out: Path, scale: Scale, device: torch.device, where: str) -> tuple[float, float]:
    """Milliseconds per step of the real loop, from the growth of its log in the second half of the run; and GiB."""
    epochs = -(-scale.steps * scale.bags // (scale.videos * scale.tracklets_per_video))
    config = Config(
        supervision=Supervision(bags_per_batch=scale.bags, bag_size=scale.bag_size),
        encoder=scale.encoder,
        train=Train(epochs=epochs, crops=where),
    )
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    log, seen, finished = out / "metrics.jsonl", [], threading.Event()

    def watch() -> None:
        lines = 0
        while not finished.wait(0.001):
            if log.exists() and (now := log.read_bytes().count(b"\n")) > lines:
                lines = now
                seen.append((time.perf_counter(), lines))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        train(config, dataset, out)
    finally:
        finished.set()
        watcher.join()
    half = [point for point in seen if point[1] >= seen[-1][1] // 2]
    (begun, first), (ended, last) = half[0], half[-1]
    return 1000 * (ended - begun) / max(last - first, 1), gpu_memory(device)


def measure(quick: bool = False) -> Result:
    """Milliseconds per step of every variant."""
    scale = TINY if quick else Scale()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch = torch.randint(0, 256, (scale.frames // scale.length, scale.length, 3, scale.size, scale.size)).float()
    plain, plain_memory = time_steps(partial(plain_step(scale, device), batch), scale.timed, device)
    print(f"plain: {plain:.1f} ms", flush=True)  # each figure at once: a compilation may take longer than expected
    tuned, tuned_memory = time_steps(hand_tuned_step(scale, device), scale.timed, device)
    print(f"hand-tuned: {tuned:.1f} ms", flush=True)
    with tempfile.TemporaryDirectory() as name:
        dataset = make_dataset(Path(name) / "data", scale)
        ours, ours_memory = time_ours(dataset, Path(name) / "ours", scale, device, "auto")
        print(f"ours: {ours:.1f} ms", flush=True)
        host, host_memory = time_ours(dataset, Path(name) / "host", scale, device, "host")
    names = {"plain_name": "a plain step", "limit_name": "the hand-tuned step"}
    rows = (
        Row("training step, crops on the GPU", "ms", ours, plain, tuned, least_ratio=3.1, least_share=0.95, **names),
        Row("training step, crops in the memory map", "ms", host, plain, tuned, least_share=0.95, **names),
    )
    memory = {"plain": plain_memory, "hand-tuned": tuned_memory, "ours": ours_memory, "ours (host)": host_memory}
    details = (("", "GiB of GPU memory"), *((name, f"{gib:.1f}") for name, gib in memory.items()))
    note = (
        f"{scale.frames} frames of {scale.size} px per step, {scale.encoder.backbone}. "
        "Plain: float32 with TF32, eager. Limit: the hand-tuned step, without loop or data."
    )
    return Result("train_step", rows, note, details)
