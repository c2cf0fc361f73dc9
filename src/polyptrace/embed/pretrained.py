"""Pretrained encoders in one line, for tracklets of any size and length.

    encoder = from_pretrained("runs/ours")
    vectors = encoder(tracklets)  # list of (frames, height, width, 3) uint8 -> (n, D) float32

The vectors are those that `polyptrace embed` computes for the same crops.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from polyptrace.config import Embed
from polyptrace.core.arrays import Float32s
from polyptrace.core.errors import warn
from polyptrace.embed.embedding import Embedder
from polyptrace.embed.onnx import check_crops
from polyptrace.embed.plan import batches_by_length
from polyptrace.encoders import BaseEncoder, load_encoder, save_encoder
from polyptrace.encoders.encoder import FrameByFrame, TrainingRecord
from polyptrace.encoders.preprocess import CropArray, CropPreparation, input_size
from polyptrace.encoders.weights import fingerprint


def save_pretrained(
    encoder: BaseEncoder | Embedder,
    folder: str | Path,
    *,
    licence: str | None = None,
    results: Mapping[str, str | float] | None = None,
    precision: str = "float32",
    overwrite: bool = False,
) -> None:
    """Writes model.safetensors, config.json and README.md, the model card, as the hub expects them.

    Only an encoder that polyptrace trained can be saved. The card says how it was trained. `licence` (of the weights,
    an identifier of the hub such as "apache-2.0") and `results` (metric: value, preferably with its confidence
    interval) are added to it. With `precision` float16 the file has half the size; the rounded weights have another
    fingerprint.
    """
    module = encoder.encoder if isinstance(encoder, Embedder) else encoder
    record = getattr(module, "record", TrainingRecord())
    record = replace(record, licence=licence or record.licence, results=dict(results or record.results))
    save_encoder(module, Path(folder), record=record, precision=precision, overwrite=overwrite)


class PretrainedEncoder(Embedder):
    """An encoder that is called with a list of tracklets. The torch module is `.encoder`."""

    save_pretrained = save_pretrained

    def __init__(self, encoder: BaseEncoder, settings: Embed | None = None) -> None:
        super().__init__(encoder, settings)
        self._enlarge = self.settings.enlarge or not encoder.preprocess.flexible
        self._prepare_any_size = CropPreparation(encoder.preprocess, enlarge=self._enlarge).to(self.device)

    @property
    def name(self) -> str:
        """The name of the encoder."""
        return self.encoder.name

    @property
    def width(self) -> int:
        """The length of a vector (D)."""
        return self.encoder.width

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all that decides the vectors: weights, architecture, preprocessing and pooling."""
        return fingerprint(self.encoder, self.weights_hash)

    def __call__(self, tracklets: Iterable[CropArray]) -> Float32s:
        """Vectors (n, D) of n tracklets, each (frames, height, width, 3) uint8 of any size and length.

        Frames are RGB crops of a polyp. They are resized and normalised here; the device and the precision are those of
        the settings.
        """
        crops = [_tensor(tracklet, f"tracklets[{index}]") for index, tracklet in enumerate(tracklets)]
        stored = [max(each.shape[1:3]) for each in crops]
        preprocess, enlarge = self.encoder.preprocess, self._enlarge
        sides = np.array([input_size(side, preprocess, enlarge=enlarge) for side in stored], np.int64)
        if small := int((np.array(stored) < sides).sum()):
            warn(
                f"tracklets: {small} of {len(crops)} have frames that are smaller than the encoder's input"
                f" ({preprocess.size} pixels) and are enlarged -> cut larger crops if the video has them"
            )
        lengths = np.array([len(each) for each in crops], np.int64)
        vectors = np.empty((len(crops), self.width), np.float32)
        with self._computing():
            for side in np.unique(sides):
                for batch in batches_by_length(lengths, np.flatnonzero(sides == side), self.settings.batch_frames):
                    vectors[batch] = self._batch_vectors([crops[i] for i in batch]).float().cpu().numpy()
        return vectors

    def _batch_vectors(self, crops: Sequence[Tensor]) -> Tensor:
        """Vectors (B, D) of tracklets whose frames have the same size after preparation."""
        lengths = torch.tensor([len(each) for each in crops], device=self.device)
        mask = torch.arange(int(lengths.max()), device=self.device) < lengths[:, None]  # (B, L)
        valid = None if bool(mask.all()) else mask
        if not isinstance(self.encoder, FrameByFrame):
            frames = pad_sequence([self._prepared(each) for each in crops], batch_first=True)  # (B, L, 3, H, W)
            return self.encoder(frames, valid)
        parts = [crops] if len(crops) > 1 else [[part] for part in crops[0].split(self.settings.batch_frames)]
        features = torch.cat(
            [self.encoder.frame_features(torch.cat([self._prepared(each) for each in part])) for part in parts]
        )
        return self.encoder.aggregate(pad_sequence(features.split(lengths.tolist()), batch_first=True), valid)

    def _prepared(self, crops: Tensor) -> Tensor:
        return self._prepare_any_size(crops.to(self.device))


def from_pretrained(
    path_or_name: str | Path,
    *,
    revision: str | None = None,
    weights: str | Path | None = None,
    settings: Embed | None = None,
) -> PretrainedEncoder:
    """A pretrained encoder, to be called with a list of tracklets.

    `path_or_name` is a run, an encoder folder, a repository on the hub ("OWNER/NAME", with a branch, tag or commit as
    `revision`), or the name of an encoder that `polyptrace encoders` lists. `weights` are those of a foundation model
    or a frozen backbone, as for `polyptrace embed --weights`. `settings` choose device, precision, pooling and
    preprocessing. Only the hub needs a network, and only for what is not in its local cache.
    """
    settings = settings or Embed()
    encoder = load_encoder(path_or_name, weights, settings.pooling, settings.preprocess, revision)
    return PretrainedEncoder(encoder, settings)


def _tensor(tracklet: CropArray, where: str) -> Tensor:
    """A tracklet as a tensor (L, H, W, 3) on any device; an error if it has another type or shape."""
    crops = tracklet if isinstance(tracklet, Tensor) else np.asarray(tracklet)
    check_crops(crops, where)
    return crops if isinstance(crops, Tensor) else torch.from_numpy(np.require(crops, requirements=("C", "W")))
