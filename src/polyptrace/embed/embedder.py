"""A frozen encoder on its device, ready for any number of datasets.

    embedder = Embedder(load_encoder("runs/ours"))
    vectors = embedder.vectors(dataset, embedder.plan(dataset, chosen))

A frame that a tracklet and its track share goes through the backbone once, where the encoder works frame by frame:
features of the frames of a block first, then the vectors of its tracklets. Other encoders get whole tracklets, those of
similar length together. Nothing waits for the GPU: batches are read ahead, and vectors are fetched a block later.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from polyptrace.config import Embed
from polyptrace.core.errors import UserError
from polyptrace.data import LabelFree
from polyptrace.embed.plan import Block, Ints, Plan, batches_by_length, make_plan, padded_rows
from polyptrace.embed.reading import read_ahead, to_device
from polyptrace.encoders import CropPreparation, Preprocess, check_crop_size, weights_hash
from polyptrace.encoders.foundation import FoundationEncoder

#: Frames from which a GPU wins back the time that compiling takes: a foundation model's blocks, a whole backbone.
COMPILE_FROM, COMPILE_WHOLE_FROM = 50_000, 200_000

#: Features are aggregated in batches of so many times the frames that go through a backbone at once.
AGGREGATED = 8


@runtime_checkable
class FrameByFrame(Protocol):
    """An encoder whose backbone sees each frame on its own."""

    def frame_features(self, frames: Tensor) -> Tensor:
        """Features (n, F) of frames (n, 3, H, W)."""

    def aggregate(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Vectors (B, D) of features (B, L, F)."""


class Embedder:
    """An encoder and how it is run: device, precision, compiled or not."""

    def __init__(self, encoder: nn.Module, settings: Embed | None = None) -> None:
        self.settings = settings or Embed()
        self.device = choose_device(self.settings.device)
        self.precision = choose_precision(self.settings.precision, self.device)
        self.encoder = encoder.eval().to(self.device)
        self.by_frame = isinstance(encoder, FrameByFrame)
        if self.by_frame:  # video models have weights of five dimensions, which it does not take
            encoder.to(memory_format=torch.channels_last)
        self._prepare: Callable[[Tensor], Tensor] = CropPreparation(
            preprocess_of(encoder), enlarge=self.settings.enlarge
        ).to(self.device)
        self._features: Callable[[Tensor], Tensor] = self._eager_features
        self._compiled = False
        if self.settings.compile == "on":
            self.compile()

    @cached_property
    def weights_hash(self) -> str:
        """The hash of the encoder's weights, which stay as they are."""
        return weights_hash(self.encoder)

    def plan(self, dataset: LabelFree, chosen: Ints) -> Plan:
        """What is to be computed for the chosen tracklets; compiles the encoder where there is enough of it."""
        check_crop_size(dataset.crops.shape[1], preprocess_of(self.encoder), enlarge=self.settings.enlarge)
        plan = make_plan(dataset.tracklets, chosen, self.settings.block_frames)
        least = COMPILE_FROM if isinstance(self.encoder, FoundationEncoder) else COMPILE_WHOLE_FROM
        enough = self.device.type == "cuda" and self.frame_count(dataset, plan) >= least
        if self.settings.compile == "auto" and enough and not self._compiled:
            self.compile()
        return plan

    def frame_count(self, dataset: LabelFree, plan: Plan) -> int:
        """Frames that go through the encoder: each once, or as often as a tracklet has it."""
        if self.by_frame:
            return len(plan.frames)
        return sum(int(dataset.tracklets.length[block.tracklets].sum()) for block in plan.blocks)

    def compile(self) -> None:
        """Compiles for batches of one shape: normalisation and backbone as one, or a foundation model's blocks."""
        self._compiled = True
        if isinstance(self.encoder, FoundationEncoder):
            self.encoder.compile()
            self._prepare = torch.compile(self._prepare)
        elif self.by_frame:
            self._features = torch.compile(self._eager_features, dynamic=False)

    def features(self, crops: Tensor) -> Tensor:
        """Features (n, F) of crops (n, S, S, 3) on the device, as fast as they can be had."""
        with self._computing():
            return self._features(crops)

    def vectors(
        self, dataset: LabelFree, plan: Plan, blocks: slice = slice(None), advance: Callable[[int], object] = int
    ) -> tuple[Ints, NDArray[np.float32]]:
        """Tracklets (N,) of some blocks of the plan, in the order they were computed, and their vectors (N, D)."""
        chosen = plan.blocks[blocks]
        work = self._block_by_block if self.by_frame else self._whole_tracklets
        orders, vectors, coming = [], [], None
        with self._computing():
            for order, found in work(dataset, plan, chosen, advance):
                orders.append(order)
                if coming is not None:
                    vectors.append(coming())
                coming = _fetched_later(found)
            if coming is not None:
                vectors.append(coming())
        return np.concatenate(orders), np.concatenate(vectors)

    def _block_by_block(
        self, dataset: LabelFree, plan: Plan, chosen: tuple[Block, ...], advance: Callable[[int], object]
    ) -> Iterator[tuple[Ints, Tensor]]:
        """Features of the frames, in batches that do not stop at the end of a block; then each block's tracklets."""
        size = self.settings.batch_frames
        begin = reached = chosen[0].begin // size * size
        parts = [plan.frames[place : place + size] for place in range(begin, chosen[-1].end, size)]
        held: list[Tensor] = []  # features (…, F) of the frames from `begin` to `reached`
        waiting = deque(chosen)
        crops_of = read_ahead(dataset.crops, parts, self.device, size if self._compiled else 0)
        for rows, crops in zip(parts, crops_of, strict=True):
            held.append(self._features(crops)[: len(rows)])
            reached += len(rows)
            advance(len(rows))
            while waiting and waiting[0].end <= reached:
                block, features = waiting.popleft(), torch.cat(held)
                part = features[block.begin - begin : block.end - begin]
                yield self._aggregated(dataset, plan.frames[block.begin : block.end], part, block)
                held, begin = [features[block.end - begin :]], block.end

    def _aggregated(self, dataset: LabelFree, frames: Ints, features: Tensor, block: Block) -> tuple[Ints, Tensor]:
        """The block's tracklets and their vectors, of features (n, F) of its frames (n,)."""
        assert isinstance(self.encoder, FrameByFrame)
        most = AGGREGATED * self.settings.batch_frames
        batches = list(batches_by_length(dataset.tracklets.length, block.tracklets, most))
        tables = [padded_rows(dataset.tracklets, batch) for batch in batches]
        rows, masks = (np.concatenate([table.reshape(-1) for table in part]) for part in zip(*tables, strict=True))
        sizes = [mask.size for _, mask in tables]
        places = to_device(np.searchsorted(frames, rows), self.device).split(sizes)  # one copy for all batches
        reals = to_device(masks, self.device).split(sizes)
        found = []
        for (_, mask), place, real in zip(tables, places, reals, strict=True):
            there = real.reshape(mask.shape)  # (B, L)
            gathered = features[place.reshape(mask.shape)] * there[..., None]  # (B, L, F)
            found.append(self.encoder.aggregate(gathered, None if mask.all() else there).float())
        return np.concatenate(batches), torch.cat(found)

    def _whole_tracklets(
        self, dataset: LabelFree, _: Plan, chosen: tuple[Block, ...], advance: Callable[[int], object]
    ) -> Iterator[tuple[Ints, Tensor]]:
        """Tracklets of similar length together."""
        length, most = dataset.tracklets.length, self.settings.batch_frames
        batches = [batch for block in chosen for batch in batches_by_length(length, block.tracklets, most)]
        tables = [padded_rows(dataset.tracklets, batch) for batch in batches]
        crops_of = read_ahead(dataset.crops, [rows.reshape(-1) for rows, __ in tables], self.device)
        for batch, (__, mask), crops in zip(batches, tables, crops_of, strict=True):
            frames = self._prepare(crops.reshape(*mask.shape, *crops.shape[1:]))  # (B, L, 3, H, W)
            yield batch, self.encoder(frames, None if mask.all() else to_device(mask, self.device)).float()
            advance(int(mask.sum()))

    def _eager_features(self, crops: Tensor) -> Tensor:
        assert isinstance(self.encoder, FrameByFrame)
        return self.encoder.frame_features(self._prepare(crops))

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Inference in the precision that was chosen; cuDNN searches for what is fastest where one shape stays."""
        before = torch.backends.cudnn.benchmark
        torch.backends.cudnn.benchmark = before or (self._compiled and self.by_frame)
        try:
            with (
                torch.inference_mode(),
                torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16"),
            ):
                yield
        finally:
            torch.backends.cudnn.benchmark = before  # whoever trains in this process did not ask for it


def _fetched_later(vectors: Tensor) -> Callable[[], NDArray[np.float32]]:
    """What gives vectors (n, D) as an array: on a GPU they are on their way, and only the call waits for them."""
    if not vectors.is_cuda:
        return vectors.numpy
    host = torch.empty(vectors.shape, dtype=vectors.dtype, pin_memory=True)
    host.copy_(vectors, non_blocking=True)
    arrived = torch.cuda.current_stream(vectors.device).record_event()

    def fetch() -> NDArray[np.float32]:
        arrived.synchronize()
        return np.array(host.numpy())

    return fetch


def preprocess_of(encoder: nn.Module) -> Preprocess:
    """What an encoder says about its input."""
    preprocess = encoder.preprocess
    assert isinstance(preprocess, Preprocess)
    return preprocess


def choose_device(wanted: str) -> torch.device:
    """The device to embed on."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise UserError("--embed.device cuda: torch sees no GPU -> check the driver, or use --embed.device cpu")
    if torch.cuda.is_available() and wanted != "cpu":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def choose_precision(wanted: str, device: torch.device) -> str:
    """bf16 or float32."""
    if wanted != "auto":
        return wanted
    return "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
