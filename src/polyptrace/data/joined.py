"""Several prepared datasets as one, for training on all of them.

    data = join_datasets([Dataset.open("data/january"), Dataset.open("data/february")])

The crops stay in their files, and the tracklets of the datasets follow each other in the given order.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Literal

import numpy as np

from polyptrace.core.arrays import Ints, Pixels
from polyptrace.core.errors import UserError
from polyptrace.core.files import differences, refuse_changes
from polyptrace.data.crops.store import CropStore
from polyptrace.data.dataset import Dataset, data_hash
from polyptrace.data.identity import video_keys
from polyptrace.data.tracklets import Tracklets


class JoinedCrops:
    """The crop stores of several datasets as one (n, S, S, 3); rows are read from the files they are in."""

    def __init__(self, stores: Sequence[CropStore]) -> None:
        self._stores = stores
        self._begin = np.cumsum([0, *map(len, stores)])
        self.shape = (int(self._begin[-1]), *stores[0].shape[1:])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Ints) -> Pixels:
        crops = np.empty((rows.size, *self.shape[1:]), np.uint8)
        return self.take(rows.ravel(), 0, crops, "clip").reshape(*rows.shape, *self.shape[1:])

    def take(self, rows: Ints, _axis: Literal[0], out: Pixels, _mode: Literal["clip"], /) -> Pixels:
        """Writes the crops of rows (n,) to `out`; see `CropStore`."""
        store = np.searchsorted(self._begin, rows, side="right") - 1
        for number in np.unique(store):
            inside = store == number
            out[inside] = self._stores[number][rows[inside] - self._begin[number]]
        return out


def join_datasets(datasets: Sequence[Dataset]) -> Dataset:
    """The datasets as one; a single one as it is.

    Videos and polyps are identified by dataset and name, so a video that two of them contain is an error, and so are
    different settings of tracks and crops. It is generated only if all of them are.
    """
    first = datasets[0]
    if len(datasets) == 1:
        return first
    _check_joinable(datasets)
    tables = [each.tracklets for each in datasets]
    columns = {key.name: np.concatenate([getattr(table, key.name) for table in tables]) for key in fields(Tracklets)}
    begin = np.cumsum([0, *(len(each.crops) for each in datasets)])
    columns["row_index"] = np.concatenate([t.row_index + start for t, start in zip(tables, begin, strict=False)])
    columns["offset"] = np.cumsum([0, *np.concatenate([table.length for table in tables])])
    hashes = "".join(map(data_hash, datasets))
    info = {
        **first.info,
        "source": {"joined": [str(each.path) for each in datasets]},
        "generated": all(each.generated for each in datasets),
        "counts": _summed(datasets, "counts"),
        "labels": _summed(datasets, "labels"),
        "hashes": {"tracklets.parquet": hashlib.sha256(hashes.encode()).hexdigest()},
    }
    return Dataset(first.path, info, Tracklets(**columns), JoinedCrops([each.crops for each in datasets]))


def _check_joinable(datasets: Sequence[Dataset]) -> None:
    first = datasets[0]
    folder_of_video = dict.fromkeys(video_keys(first.tracklets), first.path)
    for each in datasets[1:]:
        changed = differences(_tracks_and_crops(first), _tracks_and_crops(each))
        refuse_changes(f"{each.path}: was prepared", changed, f"prepare it with the settings of {first.path}")
        if each.crops.shape[1:] != first.crops.shape[1:]:
            size, wanted = each.crops.shape[1], first.crops.shape[1]
            raise UserError(f"{each.path}: crops of {size} pixels, not {wanted} as in {first.path} -> prepare it again")
        for video in dict.fromkeys(video_keys(each.tracklets)):
            if video in folder_of_video:
                raise UserError(
                    f"{each.path}: video {video} is in {folder_of_video[video]}, too -> give each video once, or rename"
                    " it if these are different videos"
                )
            folder_of_video[video] = each.path


def _tracks_and_crops(data: Dataset) -> dict[str, Any]:
    """The settings that must be the same; `skip_bad` may differ, because it excludes rows that another may not have."""
    return {section: data.info.get("settings", {}).get(section) for section in ("tracks", "crops")}


def _summed(datasets: Sequence[Dataset], section: str) -> dict[str, Any]:
    """The sum of each number in a section of the information."""
    counts = [each.info.get(section, {}) for each in datasets]
    return {key: sum(count.get(key, 0) for count in counts) for key in dict.fromkeys(key for c in counts for key in c)}
