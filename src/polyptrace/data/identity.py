"""Identity: which rows show the same video, and which show the same polyp.

Within a dataset, video names and polyp ids are unique. A video is therefore (dataset, video) and a polyp is
(dataset, polyp): a polyp seen in two procedures is one polyp. Readers of formats whose ids restart in each video
qualify them by the video's name.

A key is one string per row, for comparing and grouping; tables and pages show the columns themselves.
"""

from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from polyptrace.core.arrays import Ints, Strings

#: Dataset, video, track and first frame: identifies a track in datasets, vectors and results.
TrackKey = tuple[str, str, int, int]


class _HasVideos(Protocol):
    @property
    def dataset(self) -> NDArray[Any]: ...
    @property
    def video(self) -> NDArray[Any]: ...


class _HasPolyps(_HasVideos, Protocol):
    @property
    def polyp(self) -> NDArray[Any]: ...


def video_keys(table: _HasVideos) -> Strings:
    """Video of each row, unique across datasets; "" where the video is unknown."""
    return join_keys(table.dataset, table.video)


def polyp_keys(table: _HasPolyps) -> Strings:
    """Polyp of each row, unique across datasets; "" where the polyp is unknown."""
    return join_keys(table.dataset, table.polyp)


def join_keys(dataset: NDArray[Any], name: NDArray[Any]) -> Strings:
    """The key of each row of two columns, see `join_key`."""
    return np.array([join_key(*pair) for pair in zip(dataset.tolist(), name.tolist(), strict=True)], object)


def join_key(dataset: str, name: str) -> str:
    """The key `dataset/name`; "" if the name is. A "/" in a dataset's name is escaped."""
    return f"{dataset.replace('%', '%25').replace('/', '%2F')}/{name}" if name else ""


def codes(keys: NDArray[Any]) -> Ints:
    """Integer of each string: its index among the sorted distinct strings, independent of the order of rows."""
    encoded = pa.array(keys, pa.string()).dictionary_encode()
    rank = pc.rank(encoded.dictionary).to_numpy() - 1
    return np.asarray(rank[encoded.indices.to_numpy()], np.int64)


def by_appearance(values: NDArray[Any]) -> Ints:
    """Integer of each value: 0, 1, ... in order of first appearance."""
    return np.asarray(pa.array(values).dictionary_encode().indices.to_numpy(), np.int64)


def group_rows(code: Ints) -> list[Ints]:
    """The rows of each code, in ascending order of the codes and of the rows; none for an empty column."""
    order = np.argsort(code, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(code[order])) + 1) if len(code) else []


def video_codes(table: _HasVideos) -> Ints:
    """Integer of each row's video; sorts by dataset, then by video name."""
    return codes(table.dataset) * (len(table.video) + 1) + codes(table.video)
