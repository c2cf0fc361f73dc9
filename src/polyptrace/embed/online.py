"""Vectors of running tracks: only new frames are encoded, and the features of earlier frames are kept.

    online = OnlineEncoder(load_encoder("runs/ours"))
    track = online.track()
    vector = track.add(crop)  # (S, S, 3) uint8 -> (D,), the vector of all frames of the track so far

All shapes are fixed, so that on a GPU an added frame is two replays of captured CUDA graphs. Frames are encoded 8 or 1
at a time; features are padded to a power of two and masked. Per frame, the host copies the crop into pinned memory,
queues everything else at once, and waits once.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from polyptrace.config import Embed
from polyptrace.core.arrays import Float32s
from polyptrace.core.device import choose_device, choose_precision
from polyptrace.core.errors import UserError
from polyptrace.encoders.encoder import BaseEncoder, FrameByFrame
from polyptrace.encoders.foundation import FoundationEncoder
from polyptrace.encoders.preprocess import CropArray, CropPreparation

#: Batch sizes of the backbone.
CHUNKS = (8, 1)

#: Padded lengths of a track; of a longer track the last 1024 frames are used.
LENGTHS = (8, 16, 32, 64, 128, 256, 512, 1024)


class OnlineEncoder:
    """A frozen encoder for frames that arrive one by one; any number of tracks share it.

    `crop_size` is the side of the crops, by default that of the encoder's input. On a GPU, compiling and capturing take
    some time at the start; `embed.compile off` skips compiling.
    """

    def __init__(self, encoder: BaseEncoder, settings: Embed | None = None, crop_size: int = 0) -> None:
        if not isinstance(encoder, FrameByFrame):
            raise UserError(
                f"{encoder.name}: takes clips, not single frames -> embed the whole track with `embed`, or use an"
                " encoder that works frame by frame"
            )
        settings = settings or Embed()
        self.device, _ = choose_device(settings.device, "--embed.device")
        self.precision, _ = choose_precision(settings.precision, self.device)
        self.side = crop_size or encoder.preprocess.size
        own = deepcopy(encoder).eval().to(self.device).to(memory_format=torch.channels_last)
        if self.precision == "bf16":
            _round_weights(own)
        self._prepare = CropPreparation(encoder.preprocess, enlarge=settings.enlarge).to(self.device)
        self._encoder: FrameByFrame = own
        self._steps = torch.arange(LENGTHS[-1], device=self.device)
        with self.computing():
            encode = self._compiled(own, settings.compile)
            crops = torch.zeros((CHUNKS[0], self.side, self.side, 3), dtype=torch.uint8, device=self.device)
            self._encode = {count: _Fixed(encode, crops[:count].clone(), from_host=True) for count in CHUNKS}
            features, one = self._encode[1].output, torch.ones((), dtype=torch.int64, device=self.device)  # (1, F)
            self._aggregate = {
                length: _Fixed(self._masked, features.new_zeros(1, length, features.shape[1]), one.clone())
                for length in LENGTHS
            }
            self._vector = _Pinned(self._aggregate[LENGTHS[0]].output) if self.device.type == "cuda" else None

    def track(self) -> "OnlineTrack":
        """A new track without frames."""
        return OnlineTrack(self)

    def features(self, crops: Tensor) -> Iterator[Tensor]:
        """Features (n, F) of crops (n, S, S, 3), a few frames at a time; each valid until the next."""
        begin = 0
        while begin < len(crops):
            count = next(chunk for chunk in CHUNKS if chunk <= len(crops) - begin)
            yield self._encode[count](crops[begin : begin + count])
            begin += count

    def aggregate(self, features: Tensor, count: int) -> Float32s:
        """The vector (D,) of the first `count` of features (length, F); the others are zero."""
        vector = self._aggregate[len(features)](features[None], count)  # (1, D)
        host: Float32s = (vector.numpy() if self._vector is None else self._vector.fetch(vector))[0]
        return host.copy()

    def replaying(self) -> AbstractContextManager[object]:
        """The context for `features` and `aggregate`; the precision is part of a captured graph."""
        return torch.inference_mode() if self.device.type == "cuda" else self.computing()

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Inference in the chosen precision, without autocast's weight cache, which a capture does not allow."""
        half = self.precision == "bf16"
        with (
            torch.inference_mode(),
            torch.autocast(self.device.type, torch.bfloat16, enabled=half, cache_enabled=False),
        ):
            yield

    def _compiled(self, own: nn.Module, wanted: str) -> Callable[[Tensor], Tensor]:
        if wanted == "off" or (wanted == "auto" and self.device.type == "cpu"):
            return self._features
        if isinstance(own, FoundationEncoder):
            own.compile()
            return self._features
        return torch.compile(self._features, dynamic=False)

    def _features(self, crops: Tensor) -> Tensor:
        return self._encoder.frame_features(self._prepare(crops))

    def _masked(self, features: Tensor, count: Tensor) -> Tensor:
        mask = (self._steps[: features.shape[1]] < count)[None]  # (1, L)
        return self._encoder.aggregate(features, mask).float()


class OnlineTrack:
    """One running track; `len(track)` is the number of its frames so far."""

    def __init__(self, encoder: OnlineEncoder) -> None:
        self._encoder = encoder
        self._features: Tensor | None = None  # (length, F)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, crops: CropArray) -> Float32s:
        """Adds a crop (S, S, 3) uint8, or several (n, S, S, 3), and returns the vector (D,) of the track."""
        with self._encoder.replaying():
            for features in self._encoder.features(self._checked(crops)):
                self._keep(features)
            assert self._features is not None
            return self._encoder.aggregate(self._features, min(self._count, LENGTHS[-1]))

    def _checked(self, crops: CropArray) -> Tensor:
        """Crops (n, S, S, 3) on any device; an error if they have another type or size."""
        side = self._encoder.side
        tensor = crops if isinstance(crops, Tensor) else torch.from_numpy(np.ascontiguousarray(crops))
        tensor = tensor[None] if tensor.ndim == 3 else tensor
        if tensor.dtype != torch.uint8 or tensor.shape[1:] != (side, side, 3) or not len(tensor):
            raise ValueError(
                f"crops: {tuple(tensor.shape)} {tensor.dtype}"
                f" -> give uint8 ({side}, {side}, 3) or (n, {side}, {side}, 3)"
            )
        return tensor

    def _keep(self, features: Tensor) -> None:
        """Appends features (n, F), or replaces the oldest ones; the vector does not depend on the order."""
        if self._features is None:
            self._features = features.new_zeros(LENGTHS[0], features.shape[1])
        while self._count + len(features) > len(self._features) < LENGTHS[-1]:
            self._features = torch.cat([self._features, torch.zeros_like(self._features)])
        start = self._count % len(self._features)
        before_end = features[: len(self._features) - start]
        self._features[start : start + len(before_end)] = before_end
        self._features[: len(features) - len(before_end)] = features[len(before_end) :]
        self._count += len(features)


class _Pinned:
    """Pinned host memory for a GPU tensor, so that copies are asynchronous."""

    def __init__(self, like: Tensor) -> None:
        self._memory = torch.zeros(like.shape, dtype=like.dtype, pin_memory=True)
        self._array = self._memory.numpy()
        self._sent = torch.cuda.Event()

    def send(self, values: Tensor, target: Tensor) -> None:
        """Copies host values to a GPU tensor, on the current stream."""
        self._sent.synchronize()  # the previous copy may not have ended yet
        np.copyto(self._array, values.numpy())
        target.copy_(self._memory, non_blocking=True)
        self._sent.record()

    def fetch(self, values: Tensor) -> NDArray[Any]:
        """Waits for GPU values and returns them; overwritten by the next call."""
        self._memory.copy_(values, non_blocking=True)
        torch.cuda.current_stream(values.device).synchronize()
        return self._array


class _Fixed:
    """A function of tensors with fixed shapes: on a GPU it is captured once and then replayed.

    `from_host`: the first input usually comes from the host.
    """

    def __init__(self, function: Callable[..., Tensor], *inputs: Tensor, from_host: bool = False) -> None:
        self._function, self._inputs = function, inputs
        self._graph: torch.cuda.CUDAGraph | None = None
        self._pinned = _Pinned(inputs[0]) if from_host and inputs[0].is_cuda else None
        if inputs[0].is_cuda:
            self._capture()
        else:
            self.output = function(*inputs)

    def __call__(self, *values: Tensor | int) -> Tensor:
        """The function of new values; the result is overwritten by the next call."""
        for fixed, value in zip(self._inputs, values, strict=True):
            if not isinstance(value, Tensor):
                fixed.fill_(value)
            elif self._pinned is None or value.is_cuda:
                fixed.copy_(value)
            else:
                self._pinned.send(value, fixed)
        if self._graph is None:
            self.output = self._function(*self._inputs)
        else:
            self._graph.replay()
        return self.output

    def _capture(self) -> None:
        benchmark, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
        current, warm_up = torch.cuda.current_stream(), torch.cuda.Stream()
        warm_up.wait_stream(current)
        with torch.cuda.stream(warm_up):  # compiles, and lets libraries allocate workspaces before the capture
            for _ in range(3):
                self._function(*self._inputs)
        current.wait_stream(warm_up)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self.output = self._function(*self._inputs)
        torch.backends.cudnn.benchmark = benchmark


def _round_weights(encoder: nn.Module) -> None:
    """Rounds to bf16, once, the weights that autocast would round in every call."""
    for module in encoder.modules():
        if isinstance(module, nn.Conv2d | nn.Linear | nn.MultiheadAttention):
            module.to(torch.bfloat16)
