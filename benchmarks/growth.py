"""python -m benchmarks growth

Time and memory of every stage against the size of its input over two orders of magnitude, on one core, without a GPU.
Each point is measured in a separate process: processor seconds of the work, and its peak memory above that of the
imports, including its input. Exponents are fitted to the last order of magnitude, where fixed costs matter little.
Draws docs/performance-growth.png. Takes ten minutes.
"""

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch

from benchmarks import bags, crops, embedding, evaluation, linking, parsing, train_step
from benchmarks.growth_figure import Curve, draw
from benchmarks.result import Result, Row, number_text
from benchmarks.timing import apart, mebibytes, report_work
from polyptrace.config import Config, Crops, Supervision, Train
from polyptrace.data import Boxes, cut_tracklets, link_tracks
from polyptrace.data.crops.filling import fill_store
from polyptrace.embed import embed
from polyptrace.encoders import TrackletEncoder
from polyptrace.evaluate import count, probe, reid, retrieval
from polyptrace.synthetic import PRESETS
from polyptrace.synthetic.generate import write_images
from polyptrace.synthetic.procedure import draw_procedure
from polyptrace.train import train

FIGURE = Path(__file__).parents[1] / "docs/performance-growth.png"
POINTS = 5  # per stage
#: Largest exponent that n log n can show: 1.08 between n = 100,000 and 1,000,000, plus noise.
N_LOG_N = 1.15

Work = Callable[[], object]


def _linking(n: int, _: Path) -> Work:
    boxes = linking.random_walk(n)
    return lambda: cut_tracklets(boxes, link_tracks(boxes))


def _bags(n: int, _: Path) -> Work:
    return lambda: bags.ours(n, "no-overlap")


def _parsing(n: int, folder: Path) -> Work:
    parsing.write_tree(folder, n)
    return lambda: parsing.ours(folder)


def _crops(n: int, folder: Path) -> Work:
    few = crops.make_source(folder, 8)
    boxes = few.take(np.arange(n) % 8)
    for row in range(n):  # more names for the same eight pictures
        (folder / f"{row}.jpg").hardlink_to(folder / few.file[row % 8])
    columns = {"file": [f"{row}.jpg" for row in range(n)], "image_width": crops.WIDTH, "image_height": crops.HEIGHT}
    table = Boxes.of(video="v", frame_index=np.arange(n), xywh=boxes.xywh, **columns)
    return lambda: fill_store(folder / "crops.npy", table, folder, Crops(workers=1))


def _synth(n: int, folder: Path) -> Work:
    procedure = draw_procedure(0, 1, "train", 3, PRESETS["tiny"])
    rows = np.resize(procedure.frames_to_render(procedure.box_table()), n)
    return lambda: write_images([(procedure, rows)], folder, torch.device("cpu"), 1, lambda _: None)


def _training(n: int, folder: Path) -> Work:
    tiny = replace(train_step.TINY, tracklets_per_video=15)
    few = train_step.make_dataset(folder / "few", replace(tiny, videos=1))
    dataset = train_step.make_dataset(folder / "data", replace(tiny, videos=n // 15))
    config = Config(
        supervision=Supervision(bags_per_batch=10, bag_size=2),
        encoder=tiny.encoder,
        train=Train(epochs=1, loggers=()),
    )
    train(config, few, folder / "first")  # loads libraries, the same seconds at every size
    return lambda: train(config, dataset, folder / "run")


def _embedding(n: int, folder: Path) -> Work:
    dataset = embedding.make_dataset(folder / "data", n // 36, 32)
    encoder = TrackletEncoder("test_resnet", size=32).eval()
    return lambda: embed(encoder, dataset)


def _retrieval(n: int, _: Path) -> Work:
    vectors, polyp = evaluation.table(n)
    return lambda: retrieval(vectors, polyp)


def _reid(n: int, _: Path) -> Work:
    vectors, polyp = evaluation.table(n)
    return lambda: reid(vectors, polyp)


def _probe(n: int, _: Path) -> Work:
    vectors, polyp = evaluation.table(n)
    label = (np.random.default_rng(1).random(polyp[-1] + 1) < 0.5).astype(np.int64)[polyp]
    return lambda: probe(vectors, label, polyp)


def _counting(n: int, _: Path) -> Work:
    vectors, polyp = evaluation.table(n)
    return lambda: count(vectors, np.arange(n) // 100, polyp)


@dataclass(frozen=True)
class Stage:
    """A stage: the unit and largest size of its input, and a function that sets up its work."""

    unit: str
    largest: int
    multiple: int  # all sizes are multiples of this
    work: Callable[[int, Path], Work]
    repeats: int = 1  # the best run counts

    def sizes(self, largest: int, points: int = POINTS) -> list[int]:
        """From a hundredth of the largest size upwards."""
        wanted = largest * np.logspace(-2, 0, points)
        return [max(1, round(size / self.multiple)) * self.multiple for size in wanted]


STAGES = {
    "linking and cutting": Stage("boxes", 1_000_000, 5_000, _linking, 7),
    "bags of an epoch": Stage("tracklets", 1_000_000, 500, _bags, 3),
    "reading XML": Stage("files", 40_000, 4, _parsing),
    "cutting crops": Stage("pictures", 800, 1, _crops),
    "drawing procedures": Stage("frames", 800, 1, _synth),
    "training, an epoch": Stage("tracklets", 1_500, 15, _training),
    "embedding": Stage("frames", 36_000, 36, _embedding),
    "retrieval": Stage("tracklets", 50_000, 20, _retrieval),
    "ReID": Stage("tracklets", 50_000, 20, _reid),
    "size probe": Stage("tracklets", 10_000, 20, _probe),
    "counting": Stage("tracks", 20_000, 100, _counting),
}


def measure(quick: bool = False, figure: Path = FIGURE) -> Result:
    """Exponents of time and memory, the points, and the figure; `quick`: two stages, no figure."""
    curves = []
    for name, stage in STAGES.items():
        if quick and name not in ("linking and cutting", "counting"):
            continue
        sizes = stage.sizes(stage.largest // 10, 3) if quick else stage.sizes(stage.largest)
        points = apart("benchmarks.growth", name, *sizes)
        curves.append(Curve(name, stage.unit, tuple(sizes), *zip(*points, strict=True)))
    rows = []
    for curve in curves:
        what = f"growth exponent, {curve.name}, {curve.sizes[0]:,} to {curve.sizes[-1]:,} {curve.unit}"
        rows.append(Row(what, "", curve.time_exponent, most=None if quick else N_LOG_N))
    details = [("", "size", "s", "MiB", "exponent of memory")]
    for curve in curves:
        for index, (size, seconds, memory) in enumerate(zip(curve.sizes, curve.seconds, curve.memory, strict=True)):
            last = number_text(curve.memory_exponent) if index == len(curve.sizes) - 1 else ""
            details.append((curve.name, f"{size:,} {curve.unit}", number_text(seconds), number_text(memory), last))
    if not quick:
        draw(curves, figure)
    note = f"One core, one process per point. n log n shows an exponent of up to {N_LOG_N}."
    return Result("growth", tuple(rows), note, tuple(details))


def point(name: str, size: int) -> None:
    """Prints seconds and MiB of a stage for one size."""
    with tempfile.TemporaryDirectory() as folder:
        imports = mebibytes("VmRSS")
        report_work(STAGES[name].work(size, Path(folder)), imports, STAGES[name].repeats)


if __name__ == "__main__":  # the measurements of one stage
    torch.set_num_threads(1)
    for argument in sys.argv[2:]:  # a fork of this process, in which everything is imported already
        copy = get_context("fork").Process(target=point, args=(sys.argv[1], int(argument)))
        copy.start()
        copy.join()
        if copy.exitcode:
            sys.exit(copy.exitcode)
