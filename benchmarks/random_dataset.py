"""Dataset folders of random crops, without images and labels."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyptrace.core.files import write_json
from polyptrace.data import Dataset
from polyptrace.data.dataset import FORMAT, save_tracklets
from polyptrace.data.tracklets import Tracklets


def write_tracklets(folder: Path, rows: Sequence[NDArray[np.int64]], **columns: NDArray[Any]) -> Dataset:
    """Adds tracklets with these rows of `folder/crops.npy` and these columns; the dataset of the folder."""
    count = len(rows)
    unknown = {
        "dataset": np.full(count, "random", object),
        "fps": np.full(count, np.nan),
        "polyp": np.full(count, "", object),
        "size_mm": np.full(count, np.nan),
        "histology": np.full(count, "", object),
    }
    index, offset = np.concatenate(rows), np.cumsum([0, *map(len, rows)])
    tracklets = Tracklets(**unknown | columns, row_index=index, offset=offset)
    save_tracklets(tracklets, folder / "tracklets.parquet")
    write_json(folder / "dataset.json", {"format": FORMAT})
    return Dataset.open(folder)
