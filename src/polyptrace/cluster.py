"""Preparation and embedding of many procedures on a Ray cluster, with the same bytes as on one machine.

Every machine must see the images, the dataset and the output under the same paths, on a shared file system, and have
this package installed. `pip install 'polyptrace[cluster]'` installs Ray.
"""

import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from polyptrace.config import Crops, Embed
from polyptrace.core.arrays import Float32s, Ints
from polyptrace.core.console import counted, notify, progress
from polyptrace.core.errors import UserError
from polyptrace.data import Boxes, Dataset
from polyptrace.data.crops.filling import fill_store
from polyptrace.data.crops.store import Failures, count_images, write_store
from polyptrace.data.identity import group_rows, video_codes
from polyptrace.embed import Embedder, Embeddings
from polyptrace.embed.embedding import UNITS, encoder_info, tracklets_of
from polyptrace.embed.partial import partial_blocks
from polyptrace.embed.plan import make_plan
from polyptrace.embed.table import of_dataset
from polyptrace.encoders import BaseEncoder
from polyptrace.encoders.preprocess import input_size


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Ray, connected to the cluster at `address`: `auto` (that of this machine), `HOST:PORT`, or `local` (a new one).

    A `UserError` of a worker is raised here as well.
    """
    if find_spec("ray") is None:
        raise UserError("--cluster: Ray is not installed -> pip install 'polyptrace[cluster]'")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry
    import ray

    already = ray.is_initialized()
    if not already:
        try:
            _check_port(address)
            ray.init(None if address == "local" else address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise UserError(
                f"--cluster {address}: no Ray cluster there ({reason}) -> start one with `ray start --head`, and"
                " `ray start --address HOST:PORT` on the other machines"
            ) from None
    try:
        yield ray
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, UserError):
            raise error.cause from None
        raise
    finally:
        if not already:
            ray.shutdown()


def fill_store_on(
    address: str,
    path: Path,
    boxes: Boxes,
    root: Path,
    settings: Crops,
    advance: Callable[[int], object] = lambda _: None,
    _skip: Callable[[int], object] = lambda _: None,
) -> Failures:
    """`fill_store` on a cluster: writes the crop of every box to `path`; returns the rows that could not be cut.

    Each procedure is cut by one worker with `crops.workers` threads (default 1) into its own file, because shared file
    systems do not support several writers. The files are joined at the end; until then the disk holds the crops twice.
    A run that was killed resumes with the files that exist; `_skip` is not called, because workers count their images.
    """
    parts = path.with_suffix(".parts")  # a file per procedure; `prepare` removes them at the end
    parts.mkdir(exist_ok=True)
    threads = settings.workers or 1
    on_gpu = settings.decoding == "nvjpeg"
    failures: Failures = {}
    machines = set()
    with connected(address) as ray:
        if on_gpu and not ray.cluster_resources().get("GPU"):
            raise UserError("--crops.decoding nvjpeg: the cluster has no GPU -> use full")
        cut = ray.remote(num_cpus=threads, num_gpus=int(on_gpu), scheduling_strategy="SPREAD")(_cut)
        of_video = video_codes(boxes)
        assert (np.diff(of_video) >= 0).all()  # the parts are joined in the order of the procedures
        procedures = group_rows(of_video)
        files = [parts.resolve() / f"{number:06d}.npy" for number in range(len(procedures))]
        rows_of = {
            cut.remote(file, boxes.take(rows), root.resolve(), replace(settings, workers=threads)): rows
            for file, rows in zip(files, procedures, strict=True)
        }
        remaining = list(rows_of)
        while remaining:
            (done,), remaining = ray.wait(remaining)
            failed, machine = ray.get(done)
            failures |= {int(rows_of[done][row]): reason for row, reason in failed.items()}
            machines.add(machine)
            advance(count_images(boxes.take(rows_of[done])))
    notify(f"{counted(len(procedures), 'procedure')} on {counted(len(machines), 'machine')}")
    joined = parts / "joined.npy"  # in the folder of parts, so that what a killed run leaves is removed with them
    write_store(joined, (len(boxes), settings.size, settings.size, 3), (np.load(file, "r") for file in files))
    joined.replace(path)
    return dict(sorted(failures.items()))


def embed_on(
    address: str,
    encoder: BaseEncoder,
    dataset: Dataset,
    units: Sequence[str] = UNITS,
    settings: Embed | None = None,
    out: Path | None = None,
) -> Embeddings:
    """`embed` on a cluster: the vectors of all tracklets of the units, in the dataset's order.

    Each worker has one GPU if the cluster has GPUs, else as many cores as torch uses threads here. Blocks and batches
    are those of one machine, so vectors are identical to the bit on machines of the same kind. If `out` is given,
    workers save each block beside it, and an interrupted call is resumed by the next one with the same arguments.
    """
    settings = settings or Embed()
    input_size(dataset.crops.shape[1], encoder.preprocess, enlarge=settings.enlarge)
    chosen = tracklets_of(dataset, units)
    plan = make_plan(dataset.tracklets, chosen, settings.block_frames)
    encoder = encoder.cpu()
    results: list[tuple[Ints, Float32s]] = []
    with connected(address) as ray:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        gpus = 0 if settings.device == "cpu" else int(sum(node.get("GPU", 0) for node in nodes))
        cores = [int(node.get("CPU", 0)) for node in nodes]
        threads = max(1, min(torch.get_num_threads(), max(cores)))
        count = min(len(plan.blocks), gpus or sum(each // threads for each in cores))
        if not count:
            raise UserError(f"--cluster {address}: no machine has a free GPU or core -> add machines")
        kind = ray.remote(num_cpus=0 if gpus else threads, num_gpus=int(gpus > 0), scheduling_strategy="SPREAD")(Worker)
        blocks = None if out is None else partial_blocks(out.resolve())
        if blocks is not None:
            blocks.mkdir(parents=True, exist_ok=True)
        shared = (ray.put(encoder), str(dataset.path.resolve()), chosen, tuple(units), settings, threads, blocks)
        workers = [kind.remote() for _ in range(count)]
        machines, precisions = zip(*ray.get([worker.start.remote(*shared) for worker in workers]), strict=True)
        if len(set(precisions)) > 1:
            raise UserError("--cluster: some machines use bf16, some float32 -> choose one with --embed.precision")
        notify(f"{counted(count, 'worker')} on {counted(len(set(machines)), 'machine')}")
        with progress("embedding on a cluster", len(plan.frames), "frames") as bar:
            pool = ray.util.ActorPool(workers)
            for number, order, vectors in pool.map_unordered(
                lambda w, number: w.block.remote(number), range(len(plan.blocks))
            ):
                results.append((order, vectors))
                bar.advance(plan.blocks[number].end - plan.blocks[number].begin)
    order, vectors = (np.concatenate(part) for part in zip(*results, strict=True))
    return of_dataset(dataset, units, order, vectors, encoder_info(encoder, precisions[0]))


class Worker:
    """One process of the cluster, with the encoder and the dataset once it has been started.

    The constructor does nothing: Ray treats an error in it as a crash, and the reason would be lost.
    """

    def start(
        self,
        encoder: BaseEncoder,
        path: str,
        chosen: Ints,
        units: Sequence[str],
        settings: Embed,
        threads: int,
        blocks: Path | None,
    ) -> tuple[str, str]:
        """Sets everything up; returns the machine and the precision. Unfinished blocks are saved in `blocks`."""
        import ray

        torch.set_num_threads(threads)  # the same order of summation everywhere
        self.embedder = Embedder(encoder, settings)
        self.dataset = Dataset.open(path)
        self.plan = self.embedder.plan(self.dataset, chosen)
        self.units, self.blocks = units, blocks
        return ray.get_runtime_context().get_node_id(), self.embedder.precision

    def block(self, number: int) -> tuple[int, Ints, Float32s]:
        """A block's number, tracklets and vectors."""
        out = None if self.blocks is None else self.blocks / f"{number:06d}"
        partial = self.embedder.partial(out, self.dataset, self.units)
        order, vectors = self.embedder.vectors(self.dataset, self.plan, slice(number, number + 1), partial=partial)
        partial.save()
        return number, order, vectors


def _check_port(address: str) -> None:
    """Raises an OSError at once if nothing listens at HOST:PORT; Ray itself would wait for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "//" not in host:
        socket.create_connection((host, int(port)), timeout=5).close()


def _cut(path: Path, boxes: Boxes, root: Path, settings: Crops) -> tuple[Failures, str]:
    """The task of one worker: fills the store of one procedure; returns failed rows and the machine."""
    import ray

    return fill_store(path, boxes, root, settings), ray.get_runtime_context().get_node_id()
