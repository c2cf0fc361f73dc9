"""Vectors of tracks that are still running: only new frames are encoded, those before are kept as features.

    online = OnlineEncoder(load_encoder("runs/ours"))
    track = online.track()
    vector = track.add(crop)  # (S, S, 3) uint8 -> (D,): of all frames of the track so far

Everything has one of a few fixed shapes, so that on a GPU a frame is two replays of captured graphs: no kernel is
launched one by one. Frames are encoded 8 or 1 at a time; features are padded to a power of two and masked. Between a
crop and its vector the processor copies the crop into pinned memory, asks for everything else at once, and waits once.
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
from polyptrace.core.errors import UserError
from polyptrace.embed.embedder import FrameByFrame, choose_device, choose_precision, preprocess_of
from polyptrace.encoders import CropPreparation
from polyptrace.encoders.foundation import FoundationEncoder

#: Frames that are encoded at once.
CHUNKS = (8, 1)

#: Frames of a track that are aggregated, padded; of a longer track the last 1024.
LENGTHS = (8, 16, 32, 64, 128, 256, 512, 1024)

Crops = Tensor | NDArray[np.uint8]


class OnlineEncoder:
    """A frozen encoder made ready for frames that come one by one; any number of tracks share it.

    `crop_size` is the side of the crops to come, that of the encoder's input if not given. On a GPU compiling and
    capturing take a while once; `embed.compile off` leaves compiling out.
    """

    def __init__(self, encoder: nn.Module, settings: Embed | None = None, crop_size: int = 0) -> None:
        if not isinstance(encoder, FrameByFrame):
            raise UserError(
                f"{encoder.name}: sees clips, not single frames -> embed the whole track again with `embed`, or take"
                " an encoder that works frame by frame"
            )
        settings = settings or Embed()
        self.device = choose_device(settings.device)
        self.precision = choose_precision(settings.precision, self.device)
        self.side = crop_size or preprocess_of(encoder).size
        own = deepcopy(encoder).eval().to(self.device).to(memory_format=torch.channels_last)
        if self.precision == "bf16":
            _round_weights(own)
        self._prepare = CropPreparation(preprocess_of(encoder), enlarge=settings.enlarge).to(self.device)
        self._encoder: FrameByFrame = own
        self._steps = torch.arange(LENGTHS[-1], device=self.device)
        with self.computing():
            encode = self._compiled(own, settings.compile)
            self._encode = {count: _Fixed(encode, self._no_crops(count), from_host=True) for count in CHUNKS}
            empty = self._encode[1].output  # (1, F)
            self._aggregate = {
                length: _Fixed(self._masked, empty.new_zeros(1, length, empty.shape[1]), self._count())
                for length in LENGTHS
            }
            self._vector = _Pinned(self._aggregate[LENGTHS[0]].output) if self.device.type == "cuda" else None

    def track(self) -> "OnlineTrack":
        """A new track, without any frame."""
        return OnlineTrack(self)

    def features(self, crops: Tensor) -> Iterator[Tensor]:
        """Features (n, F) of crops (n, S, S, 3), some frames at a time; valid until the next ones."""
        begin = 0
        while begin < len(crops):
            count = next(chunk for chunk in CHUNKS if chunk <= len(crops) - begin)
            yield self._encode[count](crops[begin : begin + count])
            begin += count

    def aggregate(self, features: Tensor, count: int) -> NDArray[np.float32]:
        """The vector (D,) of the first `count` of features (length, F), those behind them being zero."""
        vector = self._aggregate[len(features)](features[None], count)  # (1, D)
        found: NDArray[np.float32] = (vector.numpy() if self._vector is None else self._vector.fetch(vector))[0]
        return found.copy()

    def replaying(self) -> AbstractContextManager[object]:
        """What `features` and `aggregate` are called in: a captured graph has its precision in it."""
        return torch.inference_mode() if self.device.type == "cuda" else self.computing()

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Inference in the precision that was chosen; rounded values are not kept, which a capture would forbid."""
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

    def _no_crops(self, count: int) -> Tensor:
        return torch.zeros((count, self.side, self.side, 3), dtype=torch.uint8, device=self.device)

    def _count(self) -> Tensor:
        return torch.ones((), dtype=torch.int64, device=self.device)


class OnlineTrack:
    """One running track: the features of its frames, of which there are `len(track)` so far."""

    def __init__(self, encoder: OnlineEncoder) -> None:
        self._encoder = encoder
        self._features: Tensor | None = None  # (length, F)
        self._seen = 0

    def __len__(self) -> int:
        return self._seen

    def add(self, crops: Crops) -> NDArray[np.float32]:
        """The vector (D,) of the track with one more crop (S, S, 3) uint8, or with several (n, S, S, 3)."""
        with self._encoder.replaying():
            for features in self._encoder.features(self._checked(crops)):
                self._keep(features)
            assert self._features is not None
            return self._encoder.aggregate(self._features, min(self._seen, LENGTHS[-1]))

    def _checked(self, crops: Crops) -> Tensor:
        """Crops (n, S, S, 3), wherever they are."""
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
        """Puts features (n, F) behind the others, or in place of the oldest: encoders do not mind the order."""
        if self._features is None:
            self._features = features.new_zeros(LENGTHS[0], features.shape[1])
        while self._seen + len(features) > len(self._features) < LENGTHS[-1]:
            self._features = torch.cat([self._features, torch.zeros_like(self._features)])
        place = self._seen % len(self._features)
        before_end = features[: len(self._features) - place]
        self._features[place : place + len(before_end)] = before_end
        self._features[: len(features) - len(before_end)] = features[len(before_end) :]
        self._seen += len(features)


class _Pinned:
    """Pinned memory on the host for a tensor of a GPU: a copy through it needs no other, and need not be waited for."""

    def __init__(self, like: Tensor) -> None:
        self._memory = torch.zeros(like.shape, dtype=like.dtype, pin_memory=True)
        self._array = self._memory.numpy()
        self._sent = torch.cuda.Event()

    def send(self, values: Tensor, place: Tensor) -> None:
        """Puts values of the host in their place on the GPU, whose current stream will have them."""
        self._sent.synchronize()  # the values before are still on their way where many come at once
        np.copyto(self._array, values.numpy())
        place.copy_(self._memory, non_blocking=True)
        self._sent.record()

    def fetch(self, values: Tensor) -> NDArray[Any]:
        """Values of the GPU, waited for; overwritten by the next ones."""
        self._memory.copy_(values, non_blocking=True)
        torch.cuda.current_stream(values.device).synchronize()
        return self._array


class _Fixed:
    """A function of tensors whose shapes never change: on a GPU captured once, and replayed from then on.

    `from_host`: the first of the values comes from the host, most of the time.
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
        """The function of other values; what comes back is overwritten by the next call."""
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
        searched, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True  # for these very shapes
        here, aside = torch.cuda.current_stream(), torch.cuda.Stream()
        aside.wait_stream(here)
        with torch.cuda.stream(aside):  # compiles, and lets libraries make what they need before the capture
            for _ in range(3):
                self._function(*self._inputs)
        here.wait_stream(aside)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self.output = self._function(*self._inputs)
        torch.backends.cudnn.benchmark = searched


def _round_weights(encoder: nn.Module) -> None:
    """Rounds the weights that autocast would round at every call to bf16, once."""
    for module in encoder.modules():
        if isinstance(module, nn.Conv2d | nn.Linear | nn.MultiheadAttention):
            module.to(torch.bfloat16)
