"""What an interrupted `embed` has computed, in the file OUT.partial.npz, from which the same command resumes.

The order of the work is fixed: frames go through the backbone batch by batch, and when all frames of a block have
features, the vectors of its tracklets follow. The file is written about every 20 seconds. It has all vectors so far,
and the features of the frames whose block is not finished. On a cluster, each block has a file of its own, in the
folder OUT.partial.blocks.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import polyptrace
from polyptrace.core.arrays import Float32s, Ints
from polyptrace.core.errors import UserError, warn
from polyptrace.core.files import atomic_file, check_writable, file_hash, refuse_existing
from polyptrace.core.lock import lock

if TYPE_CHECKING:
    from polyptrace.data.dataset import LabelFree

#: The file of finished vectors.
VECTORS_FILE = "embeddings.parquet"
#: The answers of `explore`, which belong to people and are kept when the vectors are replaced.
ANSWERS_FILE = "answers.jsonl"
#: Seconds between two writes, and the least ratio of this time to that of a write.
EVERY, LEAST_RATIO = 20.0, 20.0


def partial_file(out: Path) -> Path:
    """The file of an unfinished `embed` to the folder `out`."""
    return out.with_name(f"{out.name}.partial.npz")


def partial_blocks(out: Path) -> Path:
    """The folder of an unfinished `embed --cluster` to the folder `out`."""
    return out.with_name(f"{out.name}.partial.blocks")


def remove_partial_vectors(out: Path) -> None:
    """Removes that file and that folder; the caller has the lock of `out`."""
    partial_file(out).unlink(missing_ok=True)
    shutil.rmtree(partial_blocks(out), ignore_errors=True)


class PartialVectors:
    """The vectors so far, in the order of computation; without `out`, in memory only.

    A file that was made from another dataset or `made_with` other things is not used.
    """

    def __init__(
        self, out: Path | None = None, dataset: "LabelFree | None" = None, made_with: Mapping[str, Any] | None = None
    ) -> None:
        self.finished = 0  # blocks, or batches of whole tracklets, that have vectors
        self.frames = 0  # frames that have been computed
        self.features: Float32s | None = None  # (n, F) of the last of these frames, whose block is not finished
        self._path = None if out is None else partial_file(out)
        data = {} if dataset is None else {"data": dataset.info, "hash": file_hash(dataset.path / "tracklets.parquet")}
        self._made_with = json.dumps([polyptrace.__version__, data, made_with], sort_keys=True)
        self._tracklets: list[Ints] = []
        self._vectors: list[Float32s] = []
        self._fetch: Callable[[], Float32s] | None = None
        if self._path is not None and self._path.exists():
            self._load(self._path)
        self._due = time.monotonic() + EVERY

    def add(self, tracklets: Ints, fetch: Callable[[], Float32s]) -> None:
        """One more block; `fetch` gives the vectors of its tracklets and is called after the next block is computed."""
        self._collect()
        self._tracklets.append(tracklets)
        self._fetch = fetch
        self.finished += 1

    def result(self) -> tuple[Ints, Float32s]:
        """All tracklets (N,) and their vectors (N, D)."""
        self._collect()
        return np.concatenate(self._tracklets), np.concatenate(self._vectors)

    def save_if_due(self, features: Callable[[], Float32s | None]) -> None:
        """Writes the file if the last one is old; `features` gives those of frames whose block is not finished."""
        if self._path is not None and time.monotonic() >= self._due:
            self.save(features())

    def save(self, held: Float32s | None = None) -> None:
        """Writes the file; `held` are the features of frames whose block is not finished."""
        if self._path is None:
            return
        begun = time.monotonic()
        arrays: dict[str, Any] = {"made_with": self._made_with, "counts": [self.finished, self.frames]}
        if held is not None:
            arrays["features"] = held
        if self._tracklets:
            arrays["tracklets"], arrays["vectors"] = self.result()
        with atomic_file(self._path) as temporary:
            np.savez(temporary, **arrays)
        now = time.monotonic()
        self._due = now + max(EVERY, LEAST_RATIO * (now - begun))

    def _collect(self) -> None:
        if self._fetch is not None:
            self._vectors.append(self._fetch())
            self._fetch = None

    def _load(self, path: Path) -> None:
        try:
            with np.load(path, allow_pickle=False) as file:
                content = {name: file[name] for name in file.files}
            if str(content["made_with"]) != self._made_with:
                warn(
                    f"{path}: made with another encoder, dataset, device or version of polyptrace, or with other"
                    " settings; the embedding starts anew"
                )
                return
            self.finished, self.frames = map(int, content["counts"])
            self.features = content.get("features")
            if "vectors" in content:
                self._tracklets, self._vectors = [content["tracklets"]], [content["vectors"]]
        except Exception as error:  # a damaged archive can raise anything
            raise UserError(f"{path}: cannot be read ({error}) -> remove it; the embedding then starts anew") from None


@contextmanager
def vectors_written(out: Path, overwrite: bool) -> Iterator[None]:
    """Locks the folder `out` while vectors are computed and saved there, then removes the partial file.

    It is an error if `out` exists and may not be replaced; what a process left that was killed after saving is removed.
    """
    check_writable(out)
    with lock(out):
        if not overwrite and (out / VECTORS_FILE).is_file():
            remove_partial_vectors(out)
        refuse_existing(out, overwrite, VECTORS_FILE)
        replaces = (out / VECTORS_FILE).is_file()  # `explore` must not write answers, not even first ones, meanwhile
        with lock(out / ANSWERS_FILE) if replaces else nullcontext():
            yield
        remove_partial_vectors(out)


def remove_leftovers(out: Path) -> None:
    """Removes what a process left beside finished vectors that was killed after saving them."""
    with lock(out):
        remove_partial_vectors(out)
