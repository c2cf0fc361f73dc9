"""The endoscope's field in a video: where the image is, without the border in which names and dates are burnt in.

Frames across the video are compared. Inside the field (an octagon, a circle or a rectangle) they differ almost
everywhere; the border is static except for thin text. The field is the convex hull of the largest region that changes
and is wider than text. Its edge is moved inwards by a few pixels, so that no border remains.
"""

from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from scipy import ndimage
from scipy.spatial import ConvexHull

from polyptrace.core.arrays import Bools, Pixels
from polyptrace.core.errors import warn
from polyptrace.data.crops.videos import sample_frames, video_info

SAMPLES = 32  # frames
WIDTH = 480  # pixels to which frames are reduced
CHANGE = 12  # grey levels between the 10th and the 90th percentile of a changing pixel
TEXT_WIDTH = 0.02  # share of the shorter side; narrower regions are text
SMALLEST = 0.1  # share of the image; a smaller field is not believed
INWARDS = 3  # reduced pixels; colours bleed over the edge by up to two


def field_mask(path: Path) -> Pixels | None:
    """The field of a video as a mask (H, W, 3), 255 inside and 0 outside; None if it is the whole image.

    A video in which no field can be found, for example because it hardly changes, is kept whole, with a warning.
    """
    status = path.stat() if path.is_file() else None
    return _field_mask(path, status and (status.st_size, status.st_mtime_ns))


@lru_cache(maxsize=8)  # the mask of a video is needed by detection, crops and preview
def _field_mask(path: Path, _: object) -> Pixels | None:
    info = video_info(path)
    step = max(1, info.width // WIDTH)
    frames = [frame[::step, ::step].max(axis=2) for _, frame in sample_frames(path, SAMPLES)]
    frames = [frame for frame in frames if frame.shape == frames[0].shape]
    inside = find_field(np.stack(frames)) if len(frames) > 1 else None
    if inside is None:
        warn(f"{path}: the endoscope's field was not found, so the border is kept -> check that no name is visible")
        return None
    if inside.all():
        return None
    full = inside.repeat(step, 0).repeat(step, 1)[: info.height, : info.width]
    mask: Pixels = np.where(full[..., None], np.uint8(255), np.uint8(0)).repeat(3, 2)
    return mask


def find_field(frames: Pixels) -> Bools | None:
    """The field (h, w) of frames (n, h, w) of grey values, or None."""
    low, high = np.percentile(frames, (10, 90), axis=0)
    radius = max(1, round(TEXT_WIDTH * min(low.shape) / 2))
    changing = ndimage.binary_fill_holes(high - low > CHANGE)
    wide = ndimage.binary_dilation(_eroded(changing, radius), _disk(radius))
    label, count = ndimage.label(wide)
    if not count:
        return None
    largest = label == 1 + np.argmax(np.bincount(label.ravel())[1:])
    if largest.mean() < SMALLEST:
        return None
    points = np.argwhere(largest)[:, ::-1]
    corners = points[ConvexHull(points).vertices]
    image = Image.new("1", (largest.shape[1], largest.shape[0]))
    ImageDraw.Draw(image).polygon([(int(a), int(b)) for a, b in corners], fill=1)
    return _eroded(np.array(image), INWARDS)


def _eroded(region: Bools, radius: int) -> Bools:
    """A region without its outer pixels; the edge of the image is not an edge of the region."""
    inner: Bools = ndimage.binary_erosion(region, _disk(radius), border_value=1)
    return inner


def _disk(radius: int) -> Bools:
    y, x = np.ogrid[-radius : radius + 1, -radius : radius + 1]
    return np.asarray(x**2 + y**2 <= radius**2)
