"""The training tracklets of a dataset, with the vectors that the loss sees."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from polyptrace.core.arrays import Ints, Strings
from polyptrace.core.errors import UserError
from polyptrace.data import Dataset
from polyptrace.data.identity import polyp_keys, video_keys
from polyptrace.embed import Embeddings
from polyptrace.encoders import Preprocess, prepare_crops


@dataclass(frozen=True)
class TrainingTracklets:
    """The N fixed-length tracklets of a dataset, as columns. Training itself never reads `polyp`."""

    video: Strings
    position: Ints
    polyp: Strings  # "" unknown
    index: Ints  # of each tracklet in the dataset
    vectors: Tensor | None = None  # (N, D), after the projector

    def __len__(self) -> int:
        return len(self.position)


def training_tracklets(dataset: Dataset) -> TrainingTracklets:
    """The tracklets that bags are drawn from, without vectors."""
    index = dataset.select("tracklet")
    if not len(index):
        raise UserError(f"{dataset.path}: has no fixed-length tracklets -> prepare it with a lower tracks.min_track")
    table = dataset.tracklets
    return TrainingTracklets(video_keys(table)[index], table.position[index], polyp_keys(table)[index], index)


def add_embeddings(tracklets: TrainingTracklets, dataset: Dataset, embeddings: Embeddings) -> TrainingTracklets:
    """The tracklets with stored vectors of the same dataset. Every tracklet needs one."""
    table, stored = dataset.tracklets, embeddings.select("tracklet")
    keys = zip(stored.dataset, stored.video, stored.track.tolist(), stored.position.tolist(), strict=True)
    row_of = {key: row for row, key in enumerate(keys)}
    rows = []
    for index in tracklets.index.tolist():
        key = (table.dataset[index], table.video[index], int(table.track[index]), int(table.position[index]))
        if key not in row_of:
            raise UserError(
                f"{dataset.path}: tracklet {index} (video {key[1]!r}, frame {key[3]}) has no vector in the embeddings"
                " -> embed this dataset"
            )
        rows.append(row_of[key])
    return replace(tracklets, vectors=torch.from_numpy(stored.vectors[rows]))


def add_vectors(
    tracklets: TrainingTracklets, dataset: Dataset, encoder: nn.Module, rows: Ints | None = None
) -> TrainingTracklets:
    """The tracklets with vectors of an encoder, after its projector if it has one.

    With `rows`, only these tracklets are encoded; the vectors of the others are 0.
    """
    rows = np.arange(len(tracklets)) if rows is None else rows
    encoded = _encode(encoder, dataset, tracklets.index[rows])
    vectors = torch.zeros(len(tracklets), encoded.shape[1])
    vectors[torch.from_numpy(rows)] = encoded
    return replace(tracklets, vectors=vectors)


@torch.no_grad()
def _encode(encoder: nn.Module, dataset: Dataset, indices: Ints, batch: int = 32) -> Tensor:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    encoder = encoder.to(device).eval()
    preprocess = encoder.preprocess
    assert isinstance(preprocess, Preprocess), "every encoder defines its preprocessing"
    project = getattr(encoder, "project", None)
    parts = []
    for begin in range(0, len(indices), batch):
        crops, mask = dataset.gather(indices[begin : begin + batch])
        vectors = encoder(prepare_crops(crops.to(device), preprocess), mask.to(device))
        parts.append((vectors if project is None else project(vectors)).float().cpu())
    return torch.cat(parts)
