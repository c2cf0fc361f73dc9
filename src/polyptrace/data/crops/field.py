"""The endoscope's field in a video: where the image is, without the border in which names and dates are burnt in.

Frames across the video are compared. Inside the field (an octagon, a circle or a rectangle) they differ almost
everywhere; the border is static except for thin text. The field is the convex hull of the largest region that changes
and is wider than text. Its edge is moved inwards by a few pixels, so that no border remains.

In a strongly compressed video, the blocks around a running clock change too, and can connect it with the field. They
change much less than the field. If the field reaches beyond the hull of what changes strongly and is wider than a line
of text, it is cut to this hull.

Only the field is stored, never the frames, which show the border.
"""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from PIL.PngImagePlugin import PngInfo
from scipy import ndimage
from scipy.spatial import ConvexHull

from polyptrace.core.arrays import Bools, Pixels
from polyptrace.core.errors import warn
from polyptrace.core.files import atomic_file
from polyptrace.data.crops.videos import sample_frames, video_info

SAMPLES = 32  # frames
WIDTH = 480  # pixels to which frames are reduced
CHANGE = 12  # grey levels between the 10th and the 90th percentile of a changing pixel
TEXT_WIDTH = 0.02  # share of the shorter side; narrower regions are strokes of text
STRONG = 0.35  # share of the median change from which a pixel changes strongly
LINE_WIDTH = 0.06  # share of the shorter side; narrower regions that change strongly are a line of text
BEYOND = 0.006  # share of the image by which a field may be larger than what changes strongly
SMALLEST = 0.1  # share of the image; a smaller field is not believed
LIT = 12.0  # mean grey level of a frame that is not black
INWARDS = 3  # reduced pixels; colours bleed over the edge by up to two
IDENTITY = "video"  # key in the stored image: size and time of change of the video
NOT_FOUND = np.ones((1, 1), bool)  # the whole image, of any size


def field_mask(video: Path, folder: Path | None = None) -> Pixels | None:
    """The field of a video as a mask (H, W, 3), 255 inside and 0 outside; None if it is the whole image.

    A video in which no field can be found, for example because it hardly changes, is kept whole, with a warning. The
    field is stored as an image in `folder`, and not searched again if that or the folder of the video has it.
    """
    info, status = video_info(video), video.stat()
    step = max(1, info.width // WIDTH)
    shape = (-(-info.height // step), -(-info.width // step))
    identity = f"{status.st_size} {status.st_mtime_ns}"
    files = [each / f"{video.stem}.field.png" for each in (video.parent, folder) if each is not None]
    stored = (read_field(file, identity) for file in files)
    inside = next((field for field in stored if field is not None and field.shape in (shape, NOT_FOUND.shape)), None)
    if inside is None:
        sampled = [frame[::step, ::step].max(axis=2) for _, frame in sample_frames(video, SAMPLES)]
        frames = [frame for frame in sampled if frame.shape == shape]
        lit = [frame for frame in frames if frame.mean() >= LIT]
        inside = find_field(np.stack(frames)) if frames else NOT_FOUND
        if inside is NOT_FOUND and len(lit) > 1:  # almost all of the recording is black
            inside = find_field(np.stack(lit))
        if folder is not None:
            _write_field(files[-1], inside, identity)
    if inside.shape == NOT_FOUND.shape:
        warn(f"{video}: the endoscope's field was not found, so the border is kept -> check that no name is visible")
    if inside.all():
        return None
    full = inside.repeat(step, 0).repeat(step, 1)[: info.height, : info.width]
    return np.where(full[..., None], np.uint8(255), np.uint8(0)).repeat(3, 2)


def find_field(frames: Pixels) -> Bools:
    """The field (h, w) of frames (n, h, w) of grey values, or `NOT_FOUND`."""
    low, high = np.percentile(frames, (10, 90), axis=0)
    change = high - low
    changing = change > CHANGE
    field = _hull(changing, TEXT_WIDTH)
    if field is None:
        return NOT_FOUND
    strong = _hull(changing & (change > STRONG * np.median(change[changing])), LINE_WIDTH)
    inside = _eroded(field, INWARDS)
    if strong is None or (inside & ~strong).mean() <= BEYOND:
        return inside
    return inside & strong


def _hull(region: Bools, width: float) -> Bools | None:
    """The convex hull of the largest part of a region that is wider than a share of the shorter side; None if small."""
    radius = max(1, round(width * min(region.shape) / 2))
    wide = ndimage.binary_dilation(_eroded(ndimage.binary_fill_holes(region), radius), _disk(radius))
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
    return np.array(image)


def read_field(file: Path, identity: str) -> Bools | None:
    """The stored field of the video with this identity; None if there is none, or if it is damaged."""
    try:
        with Image.open(file, formats=("PNG",)) as image:
            return np.asarray(image.convert("1")) if image.info.get(IDENTITY) == identity else None
    except Exception:  # a damaged image can raise almost anything; the field is then searched again
        return None


def _write_field(file: Path, inside: Bools, identity: str) -> None:
    notes = PngInfo()
    notes.add_text(IDENTITY, identity)
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(file) as temporary:
        Image.fromarray(inside).save(temporary, "PNG", pnginfo=notes)


def _eroded(region: Bools, radius: int) -> Bools:
    """A region without its outer pixels; the edge of the image is not an edge of the region."""
    inner: Bools = ndimage.binary_erosion(region, _disk(radius), border_value=1)
    return inner


def _disk(radius: int) -> Bools:
    y, x = np.ogrid[-radius : radius + 1, -radius : radius + 1]
    return np.asarray(x**2 + y**2 <= radius**2)
