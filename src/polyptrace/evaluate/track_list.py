"""`tracks.csv`: which tracks were taken for the same polyp, one line a track, for people and spreadsheets.

    dataset,video,track,first_frame,last_frame,polyp,threshold,affinity,temporal
    procedures,2024-03-11,4,600,649,,1,2,1

A number below a way of counting is a polyp of that video: two tracks of a video with the same number were taken for the
same one. Numbers start at 1 in each video, in the order in which polyps were first seen.
"""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

PREFIX, SUFFIX = "counting.", "/cluster"


def write_track_list(path: Path, arrays: Mapping[str, NDArray[Any]]) -> bool:
    """Writes the clusters among a results folder's arrays as CSV; False, and no file, where nothing was counted."""
    ways = [name.removesuffix(SUFFIX) for name in arrays if name.startswith(PREFIX) and name.endswith(SUFFIX)]
    if not ways:
        return False
    ids = {key: arrays[f"tracks/{key}"] for key in ("dataset", "video", "track", "position", "last", "polyp")}
    order = np.lexsort((ids["track"], ids["position"], ids["video"], ids["dataset"]))
    numbers = {way: _by_first_sight(ids, arrays[f"{way}{SUFFIX}"], order) for way in ways}
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        head = ["dataset", "video", "track", "first_frame", "last_frame", "polyp"]
        writer.writerow(head + [way.removeprefix(PREFIX) for way in ways])
        for row in order.tolist():
            writer.writerow([*(ids[key][row] for key in ids), *(numbers[way][row] for way in ways)])
    return True


def _by_first_sight(
    ids: Mapping[str, NDArray[Any]], cluster: NDArray[np.int64], order: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Clusters numbered from 1 in each video, in the order in which they appear."""
    number = np.zeros(len(cluster), dtype=np.int64)
    seen: dict[tuple[str, str], dict[int, int]] = {}
    for row in order.tolist():
        of_video = seen.setdefault((str(ids["dataset"][row]), str(ids["video"][row])), {})
        number[row] = of_video.setdefault(int(cluster[row]), len(of_video) + 1)
    return number
