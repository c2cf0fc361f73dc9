"""python -m benchmarks foundation_models

Frames per second of the twelve foundation models at full size, bf16, compiled, with random weights; with --quick, of
small models on the CPU. From uint8 crops on the device to vectors, as in `polyptrace embed`: 512 frames at a time, in
tracklets of 8 frames or clips of the model's length. The share is the true operations per second (attention included)
divided by the rate of one large bf16 matrix product on the same device in the same run.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from benchmarks.result import Result, Row
from benchmarks.timing import now, synchronise
from polyptrace.encoders import prepare_crops
from polyptrace.encoders.cost import foundation_cost
from polyptrace.encoders.foundation import FOUNDATION_MODELS, FoundationEncoder, load_foundation
from polyptrace.encoders.foundation.families import Dinov2, Dinov3, Endofm, Endovit, Surgenet, Vjepa2
from polyptrace.encoders.foundation.foundation_encoder import Architecture

#: Frames in a tracklet for models of single frames.
LENGTH = 8

#: Frames at a time.
FRAMES = 512

#: Side of the matrix product.
MATRIX = 8192


@dataclass(frozen=True)
class Speed:
    """One line of the table; rates in 10^12 operations per second."""

    name: str
    frames_per_second: float
    gflop_per_frame: float
    teraflops: float
    share: float
    memory_gib: float
    start_seconds: float


def measure(quick: bool = False) -> Result:
    """Frames per second of every model, compared with the rate of one large matrix product."""
    device = torch.device("cuda" if torch.cuda.is_available() and not quick else "cpu")
    torch.set_float32_matmul_precision("high")
    if quick:
        make_small()
    matrix = matrix_rate(512 if quick else MATRIX, device, seconds_of(quick))
    speeds = [speed_of(model, device, matrix, quick) for model in FOUNDATION_MODELS]
    rows = (
        Row(s.name, "frames/s", s.frames_per_second, limit=s.frames_per_second / s.share, more_is_better=True)
        for s in speeds
    )
    details = [("model", "GFLOP/frame", "TFLOP/s", "GiB", "start, s")]
    for s in speeds:
        numbers = (s.gflop_per_frame, s.teraflops, s.memory_gib, s.start_seconds)
        details.append((s.name, *(f"{each:,.1f}" for each in numbers)))
    note = f"Limit: the rate of one large bf16 matrix product, {matrix / 1e12:,.1f} TFLOP/s."
    return Result("foundation_models", tuple(rows), note, tuple(details))


def speed_of(name: str, device: torch.device, matrix: float, quick: bool) -> Speed:
    """The speed of one model, with caches and statistics cleared."""
    torch.compiler.reset()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    with device:
        encoder = load_foundation(name, None)
    encoder.to(device)
    if not quick:
        encoder.compile()
    length = encoder.architecture.clip_length or LENGTH
    side = encoder.preprocess.size
    crops = torch.randint(
        0, 256, (max(1, (16 if quick else FRAMES) // length), length, side, side, 3), dtype=torch.uint8
    )
    crops = crops.to(device)
    embed_once(encoder, crops)
    start = now(device) - begin
    seconds = seconds_per_call(lambda: embed_once(encoder, crops), device, seconds_of(quick))
    frames = crops.shape[0] * length
    flops = foundation_cost(name, side, length).flops / length
    rate = flops * frames / seconds
    memory = torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else 0.0
    return Speed(name, frames / seconds, flops / 1e9, rate / 1e12, rate / matrix, memory, start)


def embed_once(encoder: FoundationEncoder, crops: Tensor) -> Tensor:
    """Vectors of crops (B, L, S, S, 3), as `polyptrace embed` computes them."""
    with torch.inference_mode(), torch.autocast(crops.device.type, torch.bfloat16):
        vectors: Tensor = encoder(prepare_crops(crops, encoder.preprocess))
    return vectors


def matrix_rate(side: int, device: torch.device, seconds: float) -> float:
    """Operations per second of a square bf16 matrix product."""
    a, b = (torch.randn(side, side, device=device, dtype=torch.bfloat16) for _ in range(2))
    return 2 * side**3 / seconds_per_call(lambda: a @ b, device, seconds)


def seconds_per_call(call: Callable[[], object], device: torch.device, seconds: float) -> float:
    """Mean time of a call over about `seconds` seconds, after two calls of warm-up."""
    for _ in range(2):
        call()
    begin, calls = now(device), 0
    while calls < 3 or time.perf_counter() - begin < seconds:
        call()
        calls += 1
        if calls % 4 == 0:
            synchronise(device)  # limits how far the queue runs ahead of the clock
    return (now(device) - begin) / calls


def seconds_of(quick: bool) -> float:
    """Duration of the measurement of one model."""
    return 0.05 if quick else 3.0


def make_small() -> None:
    """Replaces the twelve models by small ones."""
    small: dict[str, Architecture] = {
        "dinov2": Dinov2(24, 2, 2, native=28),
        "dinov3": Dinov3(32, 2, 2),
        "vjepa2": Vjepa2(48, 2, 2, clip_length=8),
        "endofm": Endofm(24, 2, 2, native=32, clip_length=4),
        "endovit": Endovit(24, 2, 2, native=32),
        "surgenet": Surgenet((8, 16, 32, 64), (1, 1, 2, 1)),
    }
    for name, model in FOUNDATION_MODELS.items():
        preprocess = replace(model.preprocess, size=28 if name.startswith("dinov2") else 32)
        architecture = small[name.partition("-")[0]]
        FOUNDATION_MODELS[name] = replace(model, architecture=architecture, preprocess=preprocess)
