"""python -m benchmarks realism GENERATED [--real CLIPS]

Statistics of a folder of `polyptrace synth`, compared with real procedures: tracks, gaps and box sizes (REAL-Colon),
purity of the bags, mAP of the colour baseline on the test split and, with --real, images (a folder of clips as JPEG).
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor
from torchvision.transforms.v2.functional import resize

from benchmarks import command_line
from benchmarks.result import Cells, columns
from polyptrace.config import Crops, Embed
from polyptrace.core.arrays import Floats, Ints, Strings
from polyptrace.core.codec import decode_image
from polyptrace.core.errors import UserError
from polyptrace.core.randomness import torch_generator
from polyptrace.data import Boxes, cut_tracklets, link_tracks, prepare, read_coco
from polyptrace.data.tracks import box_iou
from polyptrace.embed import embed
from polyptrace.encoders import ColourGrid
from polyptrace.evaluate import retrieval
from polyptrace.supervision import sample_bags, temperature
from polyptrace.supervision.purity import bag_purity

#: REAL-Colon: percentiles (10th / 50th / 90th) of three procedures as ranges, and the paper's counts.
PUBLISHED = {
    "videos, polyps": "27 + 19, 85 + 47",
    "boxes per polyp": "2,661 (351,264 boxes)",
    "tracks per polyp, all lengths": "11-48 (two procedures with one polyp)",
    "whole tracks (>= 30 frames) per polyp": "15.7 (736 of 47 polyps); 36 in one procedure",
    "tracklets per polyp": "40, 255 (two procedures with one polyp)",
    "tracklets per polyp, mean": "about 60",
    "track length, frames": "1-3 / 16-67 / 121-376",
    "gap between tracks, frames": "1-2 / 4-21 / 56-72",
    "box size, share of the image": "0.08-0.14 / 0.16-0.29 / 0.31-0.53",
    "IoU of neighbouring boxes, median": "0.86-0.93",
    "boxes at the image's edge": "14-31 %",
    "frames with two polyps": "0.02 % in one procedure",
}
MAX_HEIGHT = 224  # pixels
MEASURES = (
    *("L mean", "a mean", "b mean", "L spread", "a spread", "b spread"),
    *("specular share", "near-black share", "spectrum slope", "sharpness"),
)


def main(words: list[str]) -> None:
    """Prints the tables."""
    parser = command_line.parser("realism", __doc__)
    parser.add_argument("generated", type=Path)
    parser.add_argument("--real", type=Path)
    options = parser.parse_args(words)
    print(columns(table_of_boxes(options.generated)))
    if options.real is not None:
        print("\n" + columns(table_of_images(options.generated, options.real)))


def table_of_boxes(generated: Path) -> list[Cells]:
    """Tracks, gaps, sizes, purity of the bags and the colour baseline."""
    test = read_coco(generated, split="test")
    boxes = Boxes.concatenate([read_coco(generated, split="train"), test])
    table: list[Cells] = [("10th / 50th / 90th percentile", "here", "REAL-Colon")]
    table += [(name, value, PUBLISHED[name]) for name, value in box_statistics(boxes).items()]
    tracklets = cut_tracklets(boxes, link_tracks(boxes, "polyp"))
    for progress in (0.0, 0.5, 1.0):
        bags = sample_bags(tracklets.video, tracklets.position, 4, temperature(progress), torch_generator(0))
        purity = bag_purity(bags.numpy(), tracklets.polyp)
        members = 1 - purity.wrong.sum() / purity.members.sum()
        text = f"{100 * members:.0f} % of members, {100 * purity.pure.mean():.0f} % of bags"
        table.append((f"bag purity at c = {progress:g}", text, ""))
    encoder = ColourGrid()
    with TemporaryDirectory() as folder:
        dataset = prepare(test, generated, Path(folder) / "dataset", crops=Crops(size=encoder.preprocess.size))
        vectors = embed(encoder, dataset, ("track",), Embed(device="cpu"))
    score = f"{100 * retrieval(vectors.vectors, vectors.polyp).map:.1f}"
    return [*table, ("colour-grid mAP, test split", score, "")]


def table_of_images(generated: Path, real: Path) -> list[Cells]:
    """Simple statistics of generated and real images."""
    height = min(MAX_HEIGHT, int(read_coco(generated, split="test").image_height[0]))  # for sharpness, one scale
    ours, theirs = (
        np.percentile([measure_recording(files, height) for files in find_recordings(root, most=12)], [10, 50, 90], 0)
        for root in (generated / "images", real)
    )  # (3, measures)
    table: list[Cells] = [("10th / 50th / 90th percentile", "generated", "real", "median within")]
    for measure, one, other in zip(MEASURES, ours.T, theirs.T, strict=True):
        texts = (" / ".join(f"{value:.3g}" for value in values) for values in (one, other))
        table.append((measure, *texts, "yes" if other[0] <= one[1] <= other[2] else "no"))
    return table


def box_statistics(boxes: Boxes) -> dict[str, str]:
    """Tracks, gaps, lengths and box sizes of a table with polyp identities, with the names of `PUBLISHED`."""
    track = link_tracks(boxes, "polyp")
    whole = cut_tracklets(boxes, track, length=None)
    short = cut_tracklets(boxes, track)
    polyps = len(np.unique(boxes.polyp))
    lengths, gaps = _lengths_and_gaps(boxes, track)
    size = np.sqrt(boxes.xywh[:, 2] * boxes.xywh[:, 3] / (boxes.image_width * boxes.image_height))
    return {
        "videos, polyps": f"{len(np.unique(boxes.video))}, {polyps}",
        "boxes per polyp": f"{len(boxes) / polyps:,.0f} ({len(boxes):,} boxes)",
        "tracks per polyp, all lengths": _percentiles(_per_polyp(boxes.polyp[np.unique(track, return_index=True)[1]])),
        "whole tracks (>= 30 frames) per polyp": f"{len(whole) / polyps:.1f}",
        "tracklets per polyp": _percentiles(_per_polyp(short.polyp)),
        "tracklets per polyp, mean": f"{len(short) / polyps:.1f}",
        "track length, frames": _percentiles(lengths),
        "gap between tracks, frames": _percentiles(gaps),
        "box size, share of the image": _percentiles(size, 2),
        "IoU of neighbouring boxes, median": f"{_neighbour_iou(boxes, track):.2f}",
        "boxes at the image's edge": f"{100 * _at_edge(boxes):.0f} %",
        "frames with two polyps": f"{100 * _shared_frames(boxes):.1f} %",
    }


def _lengths_and_gaps(boxes: Boxes, track: Ints) -> tuple[Floats, Floats]:
    """The length of each track, and the gaps between consecutive tracks of one polyp, in frames."""
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


def _neighbour_iou(boxes: Boxes, track: Ints) -> float:
    order = np.lexsort((boxes.frame_index, track))
    first = np.flatnonzero(np.diff(track[order]) == 0)
    return float(np.median(box_iou(boxes.xywh[order[first]], boxes.xywh[order[first + 1]])))


def _at_edge(boxes: Boxes) -> float:
    """Share of boxes within 1 % of the image's edge."""
    size = np.stack([boxes.image_width, boxes.image_height], axis=1)
    low = boxes.xywh[:, :2] / size
    high = (boxes.xywh[:, :2] + boxes.xywh[:, 2:]) / size
    return float(((low < 0.01) | (high > 0.99)).any(axis=1).mean())


def _shared_frames(boxes: Boxes) -> float:
    _, count = np.unique(boxes.file, return_counts=True)
    return float((count > 1).mean())


def _per_polyp(polyp: Strings) -> Floats:
    return np.unique(polyp.astype(str), return_counts=True)[1].astype(np.float64)


def _percentiles(values: Floats, digits: int = 0) -> str:
    return " / ".join(f"{value:.{digits}f}" for value in np.percentile(values, [10, 50, 90]))


def find_recordings(root: Path, most: int) -> list[list[Path]]:
    """At most `most` evenly spaced JPEGs of every recording below `root`.

    A recording is a folder, or, in a folder named images, the files that share the name before the last underscore.
    """
    files = sorted(root.rglob("*.jpg"))
    if not files:
        raise UserError(f"{root}: contains no .jpg -> give a folder of clips")
    groups: dict[str, list[Path]] = {}
    for file in files:
        key = file.stem.rpartition("_")[0] if file.parent.name == "images" else str(file.parent)
        groups.setdefault(key, []).append(file)
    return [
        [group[int(index)] for index in np.unique(np.linspace(0, len(group) - 1, most).astype(int))]
        for group in groups.values()
    ]


def measure_recording(files: Sequence[Path], height: int = MAX_HEIGHT) -> Floats:
    """The measures (len(MEASURES),) of one recording: means over its images, resized to this height.

    The black border, which is dark in all of the images, is excluded.
    """
    images = torch.stack([_read(file, height) for file in files])  # (n, 3, H, W) in [0, 1]
    inside = images.amax(dim=(0, 1)) > 0.12  # (H, W)
    measures: Floats = np.mean([_measure(image, inside) for image in images], axis=0)
    return measures


def _read(file: Path, height: int) -> Tensor:
    image = decode_image(file.read_bytes())
    width = round(image.shape[2] * height / image.shape[1])
    small: Tensor = resize(image.to(torch.float32) / 255.0, [height, width], antialias=True)
    return small


def _measure(image: Tensor, inside: Tensor) -> list[float]:
    lab = to_lab(image)[:, inside]  # (3, n)
    grey = image.mean(dim=0)
    low, high = image.amin(dim=0)[inside], image.amax(dim=0)[inside]
    specular = ((low > 0.86) & (high > 0.94)).to(torch.float32).mean()
    black = (high < 0.12).to(torch.float32).mean()
    return [
        *lab.mean(dim=1).tolist(),
        *lab.std(dim=1).tolist(),
        float(specular),
        float(black),
        spectrum_slope(grey),
        sharpness(grey, inside),
    ]


def to_lab(image: Tensor) -> Tensor:
    """CIE Lab (3, ...) of an sRGB image (3, ...) in [0, 1], white point D65."""
    linear = torch.where(image <= 0.04045, image / 12.92, ((image + 0.055) / 1.055) ** 2.4)
    matrix = torch.tensor([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    white = torch.tensor([0.9505, 1.0, 1.089])
    xyz = torch.einsum("ij,j...->i...", matrix / white[:, None], linear)
    root = torch.where(xyz > 0.008856, xyz.clamp_min(1e-9) ** (1 / 3), 7.787 * xyz + 16 / 116)
    return torch.stack([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


def spectrum_slope(grey: Tensor) -> float:
    """Slope of log power over log frequency in the central square, from 4 cycles to a quarter of the sampling rate."""
    side = grey.shape[0] * 5 // 7
    top, left = (grey.shape[0] - side) // 2, (grey.shape[1] - side) // 2
    central = grey[top : top + side, left : left + side]
    window = torch.hann_window(side)
    power = torch.fft.fft2((central - central.mean()) * window[:, None] * window[None, :]).abs() ** 2
    frequency = torch.fft.fftfreq(side) * side
    radius = torch.sqrt(frequency[:, None] ** 2 + frequency[None, :] ** 2)
    ring = radius.round().long().reshape(-1)
    count = torch.bincount(ring)
    total = torch.bincount(ring, weights=power.reshape(-1).to(torch.float64))
    rings = torch.arange(4, side // 4)
    level = torch.log(total[rings] / count[rings] + 1e-12)
    return float(np.polyfit(np.log(rings.numpy()), level.numpy(), 1)[0])


def sharpness(grey: Tensor, inside: Tensor) -> float:
    """Logarithm of the standard deviation of the Laplacian, away from the border."""
    centre = grey[1:-1, 1:-1]
    laplacian = grey[2:, 1:-1] + grey[:-2, 1:-1] + grey[1:-1, 2:] + grey[1:-1, :-2] - 4 * centre
    interior = -torch.nn.functional.max_pool2d(-inside.to(torch.float32)[None, None], 5, 1, 2)[0, 0] > 0.5
    return float(torch.log(laplacian[interior[1:-1, 1:-1]].std()))
