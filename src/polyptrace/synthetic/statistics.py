"""How generated procedures look in time and in colour, as numbers to hold beside REAL-Colon's."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from polyptrace.core.codec import decode
from polyptrace.data import Boxes, Tracklets, box_iou, crop_regions, cut_crop, cut_tracklets, link_tracks

Array = NDArray[np.float64]
GRID = 8


@dataclass(frozen=True)
class Figure:
    """One row of the table: ours, and REAL-Colon's where it is known."""

    name: str
    ours: str
    real: str = ""


#: Percentiles (10th / 50th / 90th) over three procedures of REAL-Colon, as ranges, and the paper's counts.
REAL_COLON = {
    "videos, polyps": "27 + 19, 85 + 47",
    "tracks per polyp, all lengths": "11-48 (two procedures with one polyp)",
    "whole tracks (>= 30 frames) per polyp": "15.7 (736 of 47 polyps); 36 in one procedure",
    "tracklets per polyp": "40, 255 (two procedures with one polyp)",
    "track length, frames": "1-3 / 16-67 / 121-376",
    "gap between tracks, frames": "1-2 / 4-21 / 56-72",
    "box size, share of the picture": "0.08-0.14 / 0.16-0.29 / 0.31-0.53",
    "IoU of neighbouring boxes, median": "0.86-0.93",
    "boxes at the picture's edge": "14-31 %",
    "frames with two polyps": "0.02 % in one procedure",
}


def box_figures(boxes: Boxes) -> list[Figure]:
    """Tracks, gaps, lengths and sizes of a box table with identities, beside REAL-Colon's."""
    track = link_tracks(boxes, "polyp")
    whole = cut_tracklets(boxes, track, length=None)
    short = cut_tracklets(boxes, track)
    polyps = len(np.unique(boxes.polyp))
    lengths, gaps = _lengths_and_gaps(boxes, track)
    size = np.sqrt(boxes.xywh[:, 2] * boxes.xywh[:, 3] / (boxes.image_width * boxes.image_height))
    rows = {
        "videos, polyps": f"{len(np.unique(boxes.video))}, {polyps}",
        "tracks per polyp, all lengths": _spread(_per_polyp(boxes.polyp[np.unique(track, return_index=True)[1]])),
        "whole tracks (>= 30 frames) per polyp": f"{len(whole) / polyps:.1f}",
        "tracklets per polyp": _spread(_per_polyp(short.polyp)),
        "track length, frames": _spread(lengths),
        "gap between tracks, frames": _spread(gaps),
        "box size, share of the picture": _spread(size, 2),
        "IoU of neighbouring boxes, median": f"{_neighbour_iou(boxes, track):.2f}",
        "boxes at the picture's edge": f"{100 * _at_edge(boxes):.0f} %",
        "frames with two polyps": f"{100 * _shared_frames(boxes):.1f} %",
    }
    return [Figure(name, ours, REAL_COLON.get(name, "")) for name, ours in rows.items()]


def colour_grid_map(boxes: Boxes, root: Path) -> float:
    """Mean average precision (0 to 1) of retrieving whole tracks by colour alone: an 8x8 grid of the crop, cosine.

    `boxes` are those of one split, `root` the folder their files are relative to. A query without a match is left out.
    """
    tracks = cut_tracklets(boxes, link_tracks(boxes, "polyp"), length=None)
    vectors = colour_grids(boxes, tracks, root)
    return mean_average_precision(vectors, tracks.polyp)


def colour_grids(boxes: Boxes, tracks: Tracklets, root: Path) -> Array:
    """The colour grid of each track (N, 8 * 8 * 3): the mean over its frames."""
    rows, place = np.unique(tracks.box_index, return_inverse=True)
    regions = crop_regions(boxes.xywh[rows], boxes.image_width[rows], boxes.image_height[rows])
    grids = np.stack([_grid(root / file, region) for file, region in zip(boxes.file[rows], regions, strict=True)])
    owner = np.repeat(np.arange(len(tracks)), tracks.length)
    total = np.zeros((len(tracks), grids.shape[1]))
    np.add.at(total, owner, grids[place])
    mean: Array = total / tracks.length[:, None]
    return mean


def mean_average_precision(vectors: Array, label: NDArray[np.object_]) -> float:
    """Mean over queries of the average precision by cosine, the query itself left out."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    similarity = unit @ unit.T
    precisions = []
    for query in range(len(unit)):
        others = np.delete(np.arange(len(unit)), query)
        order = others[np.argsort(-similarity[query, others], kind="stable")]
        match = label[order] == label[query]
        if match.any():
            place = np.flatnonzero(match)
            precisions.append(np.mean((np.arange(len(place)) + 1) / (place + 1)))
    return float(np.mean(precisions)) if precisions else float("nan")


def _grid(file: Path, region: NDArray[np.int64]) -> Array:
    return cut_crop(decode(file.read_bytes()), region, GRID).numpy().reshape(-1).astype(np.float64)


def _lengths_and_gaps(boxes: Boxes, track: NDArray[np.int64]) -> tuple[Array, Array]:
    """Frames of each track, and frames without a box between a polyp's tracks that follow each other."""
    names, first = np.unique(track, return_index=True)
    start = np.array([boxes.frame_index[track == name].min() for name in names], dtype=np.float64)
    end = np.array([boxes.frame_index[track == name].max() for name in names], dtype=np.float64)
    polyp = boxes.polyp[first]
    gaps = []
    for name in np.unique(polyp):
        mine = polyp == name
        order = np.argsort(start[mine])
        gaps.append(start[mine][order][1:] - end[mine][order][:-1] - 1)
    return end - start + 1, np.concatenate(gaps)


def _neighbour_iou(boxes: Boxes, track: NDArray[np.int64]) -> float:
    order = np.lexsort((boxes.frame_index, track))
    follows = np.flatnonzero(np.diff(track[order]) == 0)
    return float(np.median(box_iou(boxes.xywh[order[follows]], boxes.xywh[order[follows + 1]])))


def _at_edge(boxes: Boxes) -> float:
    """Share of boxes within 1 % of the picture's edge."""
    size = np.stack([boxes.image_width, boxes.image_height], axis=1)
    low = boxes.xywh[:, :2] / size
    high = (boxes.xywh[:, :2] + boxes.xywh[:, 2:]) / size
    return float(((low < 0.01) | (high > 0.99)).any(axis=1).mean())


def _shared_frames(boxes: Boxes) -> float:
    _, count = np.unique(boxes.file, return_counts=True)
    return float((count > 1).mean())


def _per_polyp(polyp: NDArray[np.object_]) -> Array:
    return np.unique(polyp.astype(str), return_counts=True)[1].astype(np.float64)


def _spread(values: Array, digits: int = 0) -> str:
    return " / ".join(f"{value:.{digits}f}" for value in np.percentile(values, [10, 50, 90]))
