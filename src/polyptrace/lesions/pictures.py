"""The best pictures of a track: sharp, large and unobstructed, measured inside the box of the lesion.

    score = log(1 + sharpness) + log(box area) / 2 - 5 x (specular share + dark share) - 2 if the box is cut

Specular are pixels whose red, green and blue are all above 230, dark are those below 15, as in the corners of an
endoscopic picture. Sharpness is the variance of the Laplacian of the grey values (0 to 255) over the other pixels,
because the outline of a highlight is sharp in every picture. The box area is a share of the picture. A box that touches
the edge of the picture is cut.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import binary_erosion, laplace

from polyptrace.core.arrays import Pixels
from polyptrace.core.console import counted
from polyptrace.data.identity import TrackKey
from polyptrace.film_strips import TrackImages

#: Frames of a track that are measured, evenly spaced.
MEASURED = 12
#: Side of a picture, in pixels.
SIDE = 176
HIGHLIGHT, DARK = 230, 15
#: A box closer to the edge than this share of the picture is cut.
EDGE = 0.01
#: The box in a crop where the size of the image is unknown: a crop is its box scaled by 5.
CENTRAL_BOX = (0.4, 0.4, 0.2, 0.2)


@dataclass(frozen=True)
class BestFrame:
    """The best frame of a track."""

    key: TrackKey
    crop: int
    frame: int
    score: float


def best_frame(images: TrackImages, key: TrackKey) -> BestFrame | None:
    """The frame of a track with the highest score, or None if no dataset contains the track."""
    if key not in images.location:
        return None
    source, index = images.location[key]
    rows = source.dataset.tracklets.rows[index]
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, min(MEASURED, len(rows))).astype(np.int64))]
    boxes = source.boxes.take(rows)
    size = np.maximum(np.stack([boxes.image_width, boxes.image_height], 1), 1)
    low, extent = boxes.xywh[:, :2] / size, boxes.xywh[:, 2:] / size
    area = extent.prod(axis=1)
    cut = np.any((low < EDGE) | (low + extent > 1 - EDGE), axis=1)
    inside = source.box_in_crop[rows]
    inside = np.where(np.isfinite(inside).all(axis=1, keepdims=True), inside, CENTRAL_BOX)
    each = zip(source.dataset.crops[rows], inside.tolist(), area.tolist(), cut.tolist(), strict=True)
    scores = [picture_score(crop, box, share, cut=is_cut) for crop, box, share, is_cut in each]
    best = int(np.argmax(scores))
    return BestFrame(key, int(rows[best]), int(boxes.frame_index[best]), scores[best])


def best_picture(images: TrackImages, best: BestFrame) -> Pixels:
    """The best frame (SIDE, SIDE, 3) of a track with its box."""
    picture: Pixels = images.location[best.key][0].crops(np.array([best.crop]), SIDE)[0]
    return picture


def picture_score(crop: Pixels, box: Sequence[float], area: float, *, cut: bool = False) -> float:
    """The score of one crop (S, S, 3); the box is x, y, w, h as fractions of the crop."""
    side = len(crop)
    left, top = (int(edge * side) for edge in box[:2])
    right, bottom = (int(np.ceil((box[axis] + box[axis + 2]) * side)) for axis in (0, 1))
    left, top = min(max(left, 0), side - 3), min(max(top, 0), side - 3)
    inside = crop[top : max(bottom, top + 3), left : max(right, left + 3)].astype(np.float64)
    clear = (inside.min(axis=2) <= HIGHLIGHT) & (inside.max(axis=2) >= DARK)
    grey = inside.mean(axis=2)
    usable = binary_erosion(clear)[1:-1, 1:-1]  # pixels whose neighbours are clear, too
    laplacian = laplace(grey)[1:-1, 1:-1]
    sharpness = float(laplacian[usable].var()) if usable.any() else 0.0
    return float(np.log1p(sharpness) + 0.5 * np.log(max(area, 1e-6)) - 5 * (1 - clear.mean()) - 2 * cut)


def missing_pictures(images: TrackImages, keys: Sequence[TrackKey]) -> str:
    """A remark if the datasets do not contain some of the tracks, "" otherwise."""
    if not images.location:
        return "No dataset was given, so there are no pictures."
    missing = sum(key not in images.location for key in keys)
    return f"The datasets do not contain {counted(missing, 'track')}." if missing else ""
