"""`tracks.csv`: which tracks were taken for the same polyp, one line a track, for people and spreadsheets.

    dataset,video,track,first_frame,last_frame,start_s,end_s,polyp,threshold,affinity,temporal
    procedures,2024-03-11,4,600,649,24.00,25.96,,1,2,1

A number below a way of counting is a polyp of that video: two tracks of a video with the same number were taken for the
same one. Numbers start at 1 in each video, in the order in which polyps were first seen.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

PREFIX, SUFFIX = "counting.", "/cluster"
COLUMNS = ("dataset", "video", "track", "first_frame", "last_frame", "start_s", "end_s", "polyp")


def track_list(arrays: Mapping[str, NDArray[Any]]) -> list[list[str]]:
    """A header and a line a track, from the arrays of results; nothing where nothing was counted."""
    ways = [name.removesuffix(SUFFIX) for name in arrays if name.startswith(PREFIX) and name.endswith(SUFFIX)]
    if not ways:
        return []
    names = ("dataset", "video", "track", "position", "last", "fps", "polyp")
    dataset, video, track, first, last, fps, polyp = (arrays[f"tracks/{name}"] for name in names)
    order = np.lexsort((track, first, video, dataset))
    numbers = [_by_first_sight(dataset, video, arrays[f"{way}{SUFFIX}"], order) for way in ways]
    lines = [[*COLUMNS, *(way.removeprefix(PREFIX) for way in ways)]]
    for row in order.tolist():
        times = [seconds(int(each[row]), float(fps[row])) for each in (first, last)]
        ids = [dataset[row], video[row], track[row], first[row], last[row], *times, polyp[row]]
        lines.append([str(each) for each in (*ids, *(number[row] for number in numbers))])
    return lines


def seconds(frame: int, fps: float) -> str:
    """When a frame is seen, "" where that is not known."""
    return f"{frame / fps:.2f}" if fps > 0 and frame >= 0 else ""


def _by_first_sight(
    dataset: NDArray[Any], video: NDArray[Any], cluster: NDArray[np.int64], order: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Clusters numbered from 1 in each video, in the order in which they appear."""
    number = np.zeros(len(cluster), dtype=np.int64)
    seen: dict[tuple[str, str], dict[int, int]] = {}
    for row in order.tolist():
        of_video = seen.setdefault((str(dataset[row]), str(video[row])), {})
        number[row] = of_video.setdefault(int(cluster[row]), len(of_video) + 1)
    return number
