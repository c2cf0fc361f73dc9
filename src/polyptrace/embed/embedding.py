"""From a frozen encoder and a dataset to vectors, for tracklets and whole tracks.

    embeddings = embed(load_encoder("runs/ours"), Dataset.open("data/test"))

If an encoder works frame by frame, a frame that a tracklet and its track share goes through the backbone once: first
the features of all frames of a block, then the vectors of its tracklets. Other encoders take whole tracklets, in
batches of similar length. Nothing waits for the GPU: batches are read ahead, and vectors are fetched one block later.

The blocks depend on the tracklets and the settings only; the batch sizes also depend on the type of the device and on
the encoder. A block therefore gives the same numbers on machines of the same kind, and a resumed `embed` gives the same
bytes as an uninterrupted one.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from polyptrace.config import Embed
from polyptrace.core.arrays import Float32s, Ints
from polyptrace.core.console import progress
from polyptrace.core.device import choose_device, choose_precision
from polyptrace.core.errors import UserError
from polyptrace.data import Dataset
from polyptrace.data.crops.loader import CropLoader, to_device
from polyptrace.data.dataset import LabelFree
from polyptrace.embed.partial import PartialVectors, vectors_written
from polyptrace.embed.plan import EmbeddingPlan, TrackletBlock, batches_by_length, make_plan, padded_rows
from polyptrace.embed.table import Embeddings, of_dataset
from polyptrace.encoders import BaseEncoder, load_encoder
from polyptrace.encoders.cost import encoder_cost
from polyptrace.encoders.encoder import FrameByFrame
from polyptrace.encoders.foundation import FoundationEncoder
from polyptrace.encoders.preprocess import CropPreparation, input_size
from polyptrace.encoders.weights import fingerprint, weights_hash

UNITS = ("tracklet", "track")

#: Frames from which compiling pays on a GPU: the blocks of a foundation model, or a whole backbone.
COMPILE_BLOCKS_FROM, COMPILE_BACKBONE_FROM = 50_000, 200_000

#: On a CPU, the most frames per batch, and the most frames times parameters, so that a batch takes seconds: larger
#: batches are not faster, and an interrupted run repeats the last one.
CPU_BATCH, CPU_BATCH_WEIGHTS = 16, 1_500_000_000

#: Frames per batch of the aggregation, as a multiple of the frames per batch of the backbone.
AGGREGATION_BATCH = 8


class Embedder:
    """An encoder on its device, with its precision, compiled or not; it can embed any number of datasets."""

    def __init__(self, encoder: BaseEncoder, settings: Embed | None = None) -> None:
        self.settings = settings or Embed()
        self.device, _ = choose_device(self.settings.device, "--embed.device")
        self.precision, _ = choose_precision(self.settings.precision, self.device)
        self.batch_frames = self.settings.batch_frames
        if self.device.type == "cpu":
            weights = sum(parameter.numel() for parameter in encoder.parameters())
            self.batch_frames = min(self.batch_frames, CPU_BATCH, max(1, CPU_BATCH_WEIGHTS // max(weights, 1)))
        self.encoder = encoder.eval().to(self.device)
        self.by_frame = isinstance(encoder, FrameByFrame)
        if self.by_frame:  # video models have weights of five dimensions, which have no channels-last layout
            encoder.to(memory_format=torch.channels_last)
        self._prepare: Callable[[Tensor], Tensor]
        self._prepare = CropPreparation(encoder.preprocess, enlarge=self.settings.enlarge).to(self.device)
        self._features: Callable[[Tensor], Tensor] = self._eager_features
        self._compiled = False
        if self.settings.compile == "on":
            self.compile()

    @cached_property
    def weights_hash(self) -> str:
        """The hash of the encoder's weights, computed once for any number of datasets."""
        return weights_hash(self.encoder)

    def partial(self, out: Path | None, dataset: LabelFree, units: Sequence[str]) -> PartialVectors:
        """What an interrupted `embed` of this encoder, dataset and settings to the folder `out` has computed."""
        made_with = {
            "fingerprint": fingerprint(self.encoder, self.weights_hash),
            "settings": asdict(self.settings),
            "device": self.device.type,
            "precision": self.precision,
            "units": list(units),
        }
        return PartialVectors(out, dataset, made_with)

    def plan(self, dataset: LabelFree, chosen: Ints) -> EmbeddingPlan:
        """The work for the chosen tracklets; with `embed.compile auto`, compiles the encoder if that pays."""
        # an error if the crops would have to be enlarged, and the settings do not allow it
        input_size(dataset.crops.shape[1], self.encoder.preprocess, enlarge=self.settings.enlarge)
        plan = make_plan(dataset.tracklets, chosen, self.settings.block_frames)
        least = COMPILE_BLOCKS_FROM if isinstance(self.encoder, FoundationEncoder) else COMPILE_BACKBONE_FROM
        pays = self.device.type == "cuda" and self.frame_count(dataset, plan) >= least
        if self.settings.compile == "auto" and pays and not self._compiled:
            self.compile()
        return plan

    def frame_count(self, dataset: LabelFree, plan: EmbeddingPlan) -> int:
        """Frames that go through the encoder: each once, or once per tracklet that contains it."""
        if self.by_frame:
            return len(plan.frames)
        return sum(int(dataset.tracklets.length[block.tracklets].sum()) for block in plan.blocks)

    def compile(self) -> None:
        """Compiles for batches of one shape: normalisation and backbone together, or a foundation model's blocks."""
        self._compiled = True
        if isinstance(self.encoder, FoundationEncoder):
            self.encoder.compile()
            self._prepare = torch.compile(self._prepare)
        elif self.by_frame:
            self._features = torch.compile(self._eager_features, dynamic=False)

    def features(self, crops: Tensor) -> Tensor:
        """Features (n, F) of crops (n, S, S, 3) that are on the device."""
        with self._computing():
            return self._features(crops)

    def vectors(
        self,
        dataset: LabelFree,
        plan: EmbeddingPlan,
        blocks: slice = slice(None),
        advance: Callable[[int], object] = lambda _: None,
        partial: PartialVectors | None = None,
    ) -> tuple[Ints, Float32s]:
        """Tracklets (N,) of some blocks of the plan, in the order of computation, and their vectors (N, D).

        With `partial`, which is for all blocks, what it has is not computed again, and what is computed is added.
        """
        partial = partial or PartialVectors()
        with self._computing():
            if self.by_frame:
                self._block_by_block(dataset, plan, plan.blocks[blocks], advance, partial)
            else:
                self._whole_tracklets(dataset, plan.blocks[blocks], advance, partial)
            return partial.result()

    def _block_by_block(
        self,
        dataset: LabelFree,
        plan: EmbeddingPlan,
        blocks: tuple[TrackletBlock, ...],
        advance: Callable[[int], object],
        partial: PartialVectors,
    ) -> None:
        """Features of the frames, in batches that may span blocks; then the vectors of each block's tracklets."""
        size = self.batch_frames
        begin = reached = partial.frames or blocks[0].begin // size * size
        held: list[Tensor] = []  # features (…, F) of the frames from `begin` to `reached`
        if partial.features is not None:
            held, begin = [torch.from_numpy(partial.features).to(self.device)], reached - len(partial.features)
        parts = [plan.frames[start : start + size] for start in range(reached, blocks[-1].end, size)]
        waiting = deque(blocks[partial.finished :])

        def held_on_host() -> Float32s:
            return torch.cat(held).float().cpu().numpy()

        loader = CropLoader(dataset.crops, self.device)
        for rows, crops in zip(parts, loader.stream(parts, pad=size if self._compiled else 0), strict=True):
            computed = self._features(crops)[: len(rows)]
            held = [*(each.to(computed.dtype) for each in held), computed]  # loaded features are float32
            partial.frames = reached = reached + len(rows)
            advance(len(rows))
            while waiting and waiting[0].end <= reached:
                block, features = waiting.popleft(), torch.cat(held)
                part = features[block.begin - begin : block.end - begin]
                tracklets, vectors = self._aggregated(dataset, plan.frames[block.begin : block.end], part, block)
                partial.add(tracklets, _fetch_later(vectors))
                held, begin = [features[block.end - begin :]], block.end
            partial.save_if_due(held_on_host)

    def _aggregated(
        self, dataset: LabelFree, frames: Ints, features: Tensor, block: TrackletBlock
    ) -> tuple[Ints, Tensor]:
        """The tracklets of a block and their vectors, from the features (n, F) of its frames (n,)."""
        assert isinstance(self.encoder, FrameByFrame)
        most = AGGREGATION_BATCH * self.settings.batch_frames
        batches = list(batches_by_length(dataset.tracklets.length, block.tracklets, most))
        vectors = []
        for batch in batches:
            rows, mask = padded_rows(dataset.tracklets, batch)  # (B, L)
            index, valid = to_device(np.searchsorted(frames, rows), self.device), to_device(mask, self.device)
            gathered = features[index] * valid[..., None]  # (B, L, F)
            vectors.append(self.encoder.aggregate(gathered, None if mask.all() else valid).float())
        return np.concatenate(batches), torch.cat(vectors)

    def _whole_tracklets(
        self,
        dataset: LabelFree,
        blocks: tuple[TrackletBlock, ...],
        advance: Callable[[int], object],
        partial: PartialVectors,
    ) -> None:
        """Whole tracklets, in batches of similar length."""
        length, most = dataset.tracklets.length, self.batch_frames
        batches = [batch for block in blocks for batch in batches_by_length(length, block.tracklets, most)]
        batches = batches[partial.finished :]
        tables = [padded_rows(dataset.tracklets, batch) for batch in batches]
        crops_of = CropLoader(dataset.crops, self.device).stream([rows.reshape(-1) for rows, _ in tables])
        for batch, (_, mask), crops in zip(batches, tables, crops_of, strict=True):
            frames = self._prepare(crops.reshape(*mask.shape, *crops.shape[1:]))  # (B, L, 3, H, W)
            vectors = self.encoder(frames, None if mask.all() else to_device(mask, self.device)).float()
            partial.add(batch, _fetch_later(vectors))
            partial.frames += int(mask.sum())
            advance(int(mask.sum()))
            partial.save_if_due(lambda: None)

    def _eager_features(self, crops: Tensor) -> Tensor:
        assert isinstance(self.encoder, FrameByFrame)
        return self.encoder.frame_features(self._prepare(crops))

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Inference in the chosen precision; cuDNN searches for the fastest algorithm if shapes are fixed."""
        before = torch.backends.cudnn.benchmark
        torch.backends.cudnn.benchmark = before or (self._compiled and self.by_frame)
        try:
            with (
                torch.inference_mode(),
                torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16"),
            ):
                yield
        finally:
            torch.backends.cudnn.benchmark = before  # do not change it for training in this process


def embed(
    encoder: BaseEncoder | Embedder,
    dataset: Dataset,
    units: Sequence[str] = UNITS,
    settings: Embed | None = None,
    out: Path | None = None,
) -> Embeddings:
    """The vectors of all tracklets of the units, in the dataset's order, with their ids and labels.

    For several datasets give an `Embedder`, which is set up once; it has its own settings. If `out` is given, the
    folder that the caller will save to, an interrupted call is resumed by the next one with the same arguments.
    """
    embedder = encoder if isinstance(encoder, Embedder) else Embedder(encoder, settings)
    chosen = tracklets_of(dataset, units)
    plan = embedder.plan(dataset, chosen)
    count = embedder.frame_count(dataset, plan)
    partial = embedder.partial(out, dataset, units)
    with progress(f"embedding on {embedder.device.type}, {embedder.precision}", count, "frames") as bar:
        bar.skip(partial.frames)
        order, vectors = embedder.vectors(dataset, plan, advance=bar.advance, partial=partial)
    info = encoder_info(embedder.encoder, embedder.precision, embedder.weights_hash)
    return of_dataset(dataset, units, order, vectors, info)


def embed_files(
    encoder: str,
    data: Path,
    out: Path,
    weights: str | None = None,
    settings: Embed | None = None,
    *,
    row: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    compute: Callable[..., Embeddings] = embed,
) -> Embeddings:
    """Embeds a dataset folder with the encoder of a name or folder, and saves the vectors; returns them.

    If it is killed, the same call resumes it. `row` describes the encoder in a table (name, group, labels). `compute`
    replaces `embed`, for example by a cluster.
    """
    settings = settings or Embed()
    with vectors_written(out, overwrite):
        model, dataset = load_encoder(encoder, weights, settings.pooling, settings.preprocess), Dataset.open(data)
        embeddings = compute(model, dataset, settings=settings, out=out)
        size = input_size(dataset.crops.shape[1], model.preprocess, enlarge=settings.enlarge)
        method: dict[str, Any] = dict(row or {})
        if cost := encoder_cost(model, size):
            flops = {"paper_macs": float(cost.paper_macs), "flops": float(cost.flops)}
            method |= {"params": cost.params, "flops": flops}
        origin = {"from": encoder, "weights": weights, "settings": asdict(settings), "method": method}
        embeddings = replace(embeddings, info=embeddings.info | origin)
        embeddings.save(out, overwrite=overwrite)
    return embeddings


def tracklets_of(dataset: Dataset, units: Sequence[str]) -> Ints:
    """The tracklets of the units; an error if there are none."""
    chosen = np.flatnonzero(np.isin(dataset.tracklets.unit, list(units)))
    if not len(chosen):
        raise UserError(f"{dataset.path}: has no {' or '.join(units)} -> prepare it with a lower --tracks.min-track")
    return chosen


def encoder_info(encoder: BaseEncoder, precision: str, model_hash: str = "") -> dict[str, str]:
    """What a table says about its encoder; `model_hash` is the hash of its weights, if it is known already."""
    model_hash = model_hash or weights_hash(encoder)
    return {
        "encoder": encoder.name,
        "model_hash": model_hash,
        "fingerprint": fingerprint(encoder, model_hash),
        "precision": precision,
    }


def _fetch_later(vectors: Tensor) -> Callable[[], Float32s]:
    """A function that returns vectors (n, D) as an array; on a GPU the copy starts now, and only the call waits."""
    if not vectors.is_cuda:
        return vectors.numpy
    host = torch.empty(vectors.shape, dtype=vectors.dtype, pin_memory=True)
    host.copy_(vectors, non_blocking=True)
    arrived = torch.cuda.current_stream(vectors.device).record_event()

    def fetch() -> Float32s:
        arrived.synchronize()
        return np.array(host.numpy())

    return fetch
