"""The columns and vectors of a dataset's training tracklets, as the diagnostics of the supervision need them."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from polyptrace.core.errors import UserError
from polyptrace.data import Dataset, polyp_keys, video_keys
from polyptrace.embed import Embeddings
from polyptrace.encoders import Preprocess, prepare_crops
from polyptrace.report.purity import Ints, Tracklets


def training_tracklets(dataset: Dataset) -> tuple[Tracklets, Ints]:
    """The L-frame tracklets of a dataset and their indices in it; names are made unique over its sources."""
    chosen = dataset.select("tracklet")
    if not len(chosen):
        raise UserError(
            f"{dataset.path}: holds no tracklets of fixed length -> prepare it with a lower tracks.min_track"
        )
    table = dataset.tracklets
    return Tracklets(video_keys(table)[chosen], table.position[chosen], polyp_keys(table)[chosen]), chosen


def with_embeddings(tracklets: Tracklets, dataset: Dataset, chosen: Ints, embeddings: Embeddings) -> Tracklets:
    """The tracklets with vectors that were made before; each must be there."""
    table, wanted = dataset.tracklets, embeddings.select("tracklet")
    ids = zip(wanted.dataset, wanted.video, wanted.track.tolist(), wanted.position.tolist(), strict=True)
    row = {key: number for number, key in enumerate(ids)}
    rows = []
    for index in chosen.tolist():
        key = (table.dataset[index], table.video[index], int(table.track[index]), int(table.position[index]))
        if key not in row:
            raise UserError(
                f"{dataset.path}: tracklet {index} (video {key[1]!r}, frame {key[3]}) has no vector in the embeddings"
                " -> embed this dataset"
            )
        rows.append(row[key])
    return replace(tracklets, vectors=torch.from_numpy(wanted.vectors[rows]))


@torch.no_grad()
def projected(encoder: nn.Module, dataset: Dataset, indices: Ints, batch: int = 32) -> Tensor:
    """Vectors (n, D) of some tracklets as the loss sees them: through the projector, where the encoder has one."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    encoder = encoder.to(device).eval()
    preprocess = encoder.preprocess
    assert isinstance(preprocess, Preprocess), "every encoder says how its input is prepared"
    parts = []
    for begin in range(0, len(indices), batch):
        crops, mask = dataset.gather(indices[begin : begin + batch])
        frames = prepare_crops(crops.to(device), preprocess)
        vectors = encoder(frames, mask.to(device))
        project = getattr(encoder, "project", None)
        parts.append((vectors if project is None else project(vectors)).float().cpu())
    return torch.cat(parts)
