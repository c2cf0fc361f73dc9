"""The crops that tracklets use, cut in rounds: a bad picture changes tracks, but not the crops that are cut already.

The first round cuts all that is wanted. Where pictures turn out bad and their boxes are left out, the tracks are others
and may want other crops: a further round cuts only those. A run that was killed goes on in the round it was in.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np

from polyptrace.config import Crops
from polyptrace.core.console import progress
from polyptrace.data.boxes import Boxes, Ints
from polyptrace.data.store import BadPicture, fill_store

GATHERED = "gathered.npy"
_CROPS_AT_ONCE = 1024

#: What writes a crop store: `fill_store`, or what takes the same arguments.
Fill = Callable[..., list[BadPicture]]


class CropRounds:
    """The crops of a partial dataset folder, as rows of one box table."""

    def __init__(self, partial: Path, boxes: Boxes, root: Path, crops: Crops, fill: Fill = fill_store) -> None:
        self._partial, self._boxes, self._root, self._crops, self._fill = partial, boxes, root, crops, fill
        self._rounds: list[Ints] = []  # the rows that each round cut

    def cut(self, wanted: Ints) -> list[BadPicture]:
        """Cuts the crops of these rows that no round has cut yet; returns the rows whose pictures are bad."""
        new = np.setdiff1d(wanted, np.concatenate([np.empty(0, np.int64), *self._rounds]))
        if not len(new):
            return []
        folder, used = self._folder(len(self._rounds)), self._boxes.take(new)
        bad = _fill(folder, used, self._root, self._crops, self._fill)
        self._rounds.append(new)
        return [BadPicture(int(new[one.row]), one.reason) for one in bad]

    def finish(self, wanted: Ints) -> None:
        """Leaves the crops of these rows, in their order, in `crops.npy`, and nothing of the rounds."""
        one_round = len(self._rounds) == 1 and len(self._rounds[0]) == len(wanted)
        gathered = None if one_round else self._gather(wanted)
        (self._partial / "plan").unlink()  # from here on this is no store to go on with
        if gathered:
            gathered.replace(self._partial / "crops.npy")
        (self._partial / "crops.log").unlink()
        (self._partial / GATHERED).unlink(missing_ok=True)  # of a run that was killed while it had more rounds
        for folder in self._partial.glob("round-*"):
            shutil.rmtree(folder)

    def _folder(self, number: int) -> Path:
        return self._partial / f"round-{number}" if number else self._partial

    def _gather(self, wanted: Ints) -> Path:
        """Writes the wanted crops of all rounds into one file; not through a memory map, which a full disk crashes."""
        path = self._partial / GATHERED
        stores = [np.load(self._folder(number) / "crops.npy", "r") for number in range(len(self._rounds))]
        shape = (len(wanted), *stores[0].shape[1:])
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
            for first in range(0, len(wanted), _CROPS_AT_ONCE):
                some = wanted[first : first + _CROPS_AT_ONCE]
                block = np.empty((len(some), *shape[1:]), np.uint8)
                for rows, store in zip(self._rounds, stores, strict=True):
                    there = np.isin(some, rows)
                    block[there] = store[np.searchsorted(rows, some[there])]
                file.write(block.tobytes())
        return path


def _fill(folder: Path, used: Boxes, root: Path, crops: Crops, fill: Fill) -> list[BadPicture]:
    """Fills the crop store in a folder, going on with what an earlier run of the same plan left there."""
    plan = _fingerprint(used, root, crops)
    note = folder / "plan"
    if folder.exists() and (not note.exists() or note.read_text(encoding="utf-8") != plan):
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if not note.exists():  # written once: on a full disk writing it again would empty it, and the crops would be lost
        note.write_text(plan, encoding="utf-8")
    pictures = len(set(zip(used.file, used.frame_index.tolist(), strict=True)))
    with progress("cutting crops", pictures, "pictures") as bar:
        return fill(
            folder / "crops.npy",
            used,
            root,
            scale=crops.scale,
            size=crops.size,
            decoding=crops.decoding,
            workers=crops.workers,
            advance=bar.advance,
        )


def _fingerprint(used: Boxes, root: Path, crops: Crops) -> str:
    """Changes whenever another crop store would be asked for; the number of workers does not change it."""
    digest = hashlib.sha256()
    for column in (used.xywh, used.frame_index, used.image_width, used.image_height):
        digest.update(np.ascontiguousarray(column).tobytes())
    settings = {key: value for key, value in asdict(crops).items() if key != "workers"}
    digest.update(json.dumps([str(root.resolve()), settings, used.file.tolist()]).encode())
    return digest.hexdigest()
