"""The tables of `polyptrace synth --stats --real CLIPS`: generated procedures, REAL-Colon and real clips."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.table import Table

from polyptrace.config import Crops, Embed
from polyptrace.core.console import output
from polyptrace.core.randomness import torch_generator
from polyptrace.data import Boxes, cut_tracklets, link_tracks, prepare, read_coco
from polyptrace.embed import embed
from polyptrace.encoders import ColourGrid
from polyptrace.evaluate import retrieval
from polyptrace.supervision import sample_bags, temperature
from polyptrace.supervision.bags import bag_purity
from polyptrace.synthetic import (
    MAX_HEIGHT,
    box_statistics,
    compare_pictures,
    find_recordings,
    measure_recording,
)


def print_box_statistics(out: Path) -> None:
    """Prints tracks, gaps, sizes, bag purity and the colour baseline of a generated folder."""
    test = read_coco(out, split="test")
    boxes = Boxes.concatenate([read_coco(out, split="train"), test])
    table = Table("10th / 50th / 90th percentile", "here", "REAL-Colon", box=None, header_style="bold")
    for statistic in box_statistics(boxes):
        table.add_row(statistic.name, statistic.generated, statistic.real)
    tracklets = cut_tracklets(boxes, link_tracks(boxes, "polyp"))
    for progress in (0.0, 0.5, 1.0):
        bags = sample_bags(tracklets.video, tracklets.position, 4, temperature(progress), torch_generator(0))
        purity = bag_purity(bags.numpy(), tracklets.polyp)
        members = 1 - purity.wrong.sum() / purity.members.sum()
        table.add_row(
            f"bag purity at c = {progress:g}",
            f"{100 * members:.0f} % of members, {100 * purity.pure.mean():.0f} % of bags",
        )
    table.add_row("colour-grid mAP, test split", f"{100 * _colour_grid_map(test, out):.1f}")
    output.print(table)


def _colour_grid_map(boxes: Boxes, root: Path) -> float:
    """mAP of retrieving whole tracks by the colour grid."""
    encoder = ColourGrid()
    with TemporaryDirectory() as folder:
        dataset = prepare(boxes, root, Path(folder) / "dataset", crops=Crops(size=encoder.preprocess.size))
        vectors = embed(encoder, dataset, ("track",), Embed(device="cpu"))
    return retrieval(vectors.vectors, vectors.polyp).map


def print_image_statistics(out: Path, real: Path) -> None:
    """Prints simple statistics of generated and real images."""
    height = min(MAX_HEIGHT, int(read_coco(out, split="test").image_height[0]))  # sharpness is compared at one scale
    generated, theirs = (
        np.stack([measure_recording(files, height) for files in find_recordings(root, most=12)])
        for root in (out / "images", real)
    )
    table = Table("10th / 50th / 90th percentile", "generated", "real", "median within", box=None, header_style="bold")
    for row in compare_pictures(generated, theirs):
        numbers = (" / ".join(f"{value:.3g}" for value in values) for values in (row.generated, row.real))
        table.add_row(row.measure, *numbers, "yes" if row.within else "[bold]no[/]")
    output.print(table)
