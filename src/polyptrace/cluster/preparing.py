"""Crops of many procedures cut by many machines: a file per procedure, joined at the end.

A file has one writer: file systems that machines share do not promise more. While it lasts, the disk holds the crops
twice. A run that was killed goes on with the files that are there.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from polyptrace.cluster.connecting import connected
from polyptrace.core.console import console, counted
from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_file
from polyptrace.data import Boxes
from polyptrace.data.boxes import Ints
from polyptrace.data.crops import BadPicture, fill_store

#: The folder beside the store; `prepare` removes it at its end, as everything of a round.
PARTS = "round-parts"


def fill_store_on(
    address: str,
    path: Path,
    boxes: Boxes,
    root: Path,
    *,
    scale: float = 5.0,
    size: int = 232,
    decoding: str = "full",
    workers: int = 0,
    advance: Callable[[int], object] = int,
) -> list[BadPicture]:
    """`fill_store` on a cluster: writes the crop of every box to `path`; returns the rows that could not be cut.

    A procedure is cut by one worker with `workers` threads, 1 if not told.
    """
    parts = path.with_name(PARTS)
    parts.mkdir(exist_ok=True)
    threads = workers or 1
    bad: list[BadPicture] = []
    machines = set()
    with connected(address) as ray:
        if decoding == "nvjpeg" and not ray.cluster_resources().get("GPU"):
            raise UserError("--crops.decoding nvjpeg: there is no GPU in the cluster -> use full or scaled")
        cut = ray.remote(num_cpus=threads, num_gpus=int(decoding == "nvjpeg"), scheduling_strategy="SPREAD")(_cut)
        procedures = by_procedure(boxes)
        waiting = {
            cut.remote(_part(parts, number), boxes.take(rows), root.resolve(), scale, size, decoding, threads): (
                number,
                rows,
            )
            for number, rows in enumerate(procedures)
        }
        remaining = list(waiting)
        while remaining:
            (done,), remaining = ray.wait(remaining)
            found, machine, pictures = ray.get(done)
            bad += [BadPicture(int(waiting[done][1][b.row]), b.reason) for b in found]
            machines.add(machine)
            advance(pictures)
    console.print(f"{counted(len(procedures), 'procedure')} on {counted(len(machines), 'machine')}", highlight=False)
    joined = parts / "joined.npy"  # not beside the store: what a killed run leaves of it is removed with the parts
    join(joined, [_part(parts, number) for number in range(len(procedures))], (len(boxes), size, size, 3))
    joined.replace(path)
    path.with_suffix(".log").touch()  # of no job: on one machine the work would begin again
    return sorted(bad, key=lambda b: b.row)


def by_procedure(boxes: Boxes) -> list[Ints]:
    """Rows of each procedure, which lie together."""
    new = (boxes.dataset[1:] != boxes.dataset[:-1]) | (boxes.video[1:] != boxes.video[:-1])
    return np.split(np.arange(len(boxes)), np.flatnonzero(new) + 1) if len(boxes) else []


def join(path: Path, parts: list[Path], shape: tuple[int, ...]) -> None:
    """Writes the stores of all parts, one after the other, as one store of that shape."""
    with atomic_file(path) as temporary:
        begin = np.lib.format.open_memmap(temporary, "w+", np.uint8, shape).offset
        with temporary.open("r+b") as joined:
            joined.seek(begin)
            for part in parts:
                with part.open("rb") as one:
                    one.seek(np.lib.format.open_memmap(part, "r").offset)
                    shutil.copyfileobj(one, joined, 1 << 24)


def _part(folder: Path, number: int) -> Path:
    return folder.resolve() / f"{number:06d}.npy"


def _cut(
    path: Path, boxes: Boxes, root: Path, scale: float, size: int, decoding: str, threads: int
) -> tuple[list[BadPicture], str, int]:
    """What one worker does: the store of one procedure; rows that could not be cut, the machine, and pictures."""
    import ray

    pictures = 0

    def count(amount: int) -> None:
        nonlocal pictures
        pictures += amount

    bad = fill_store(path, boxes, root, scale=scale, size=size, decoding=decoding, workers=threads, advance=count)
    return bad, ray.get_runtime_context().get_node_id(), pictures
