"""Vectors computed by many machines: each worker holds the encoder and takes block after block of the same plan.

Blocks are put together as on one machine, batches too: on machines of one kind the vectors are the same to the bit.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from polyptrace.cluster.connecting import connected
from polyptrace.config import Embed
from polyptrace.core.console import console, counted, progress
from polyptrace.core.errors import UserError
from polyptrace.data import Dataset
from polyptrace.embed import Embedder, Embeddings
from polyptrace.embed.embedder import preprocess_of
from polyptrace.embed.embedding import UNITS, as_table, tracklets_of
from polyptrace.embed.plan import Ints, make_plan
from polyptrace.encoders import check_crop_size


def embed_on(
    address: str,
    encoder: nn.Module,
    dataset: Dataset,
    units: Sequence[str] = UNITS,
    settings: Embed | None = None,
) -> Embeddings:
    """`embed` on a cluster: the vectors of all tracklets of the units, in the dataset's order.

    A worker has a GPU where the cluster has some, else as many cores as torch has threads here.
    """
    settings = settings or Embed()
    check_crop_size(dataset.crops.shape[1], preprocess_of(encoder), enlarge=settings.enlarge)
    chosen = tracklets_of(dataset, units)
    plan = make_plan(dataset.tracklets, chosen, settings.block_frames)
    encoder = encoder.cpu()
    results: list[tuple[Ints, NDArray[np.float32]]] = []
    with connected(address) as ray:
        there = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        gpus = 0 if settings.device == "cpu" else int(sum(node.get("GPU", 0) for node in there))
        cores = [int(node.get("CPU", 0)) for node in there]
        threads = max(1, min(torch.get_num_threads(), max(cores)))
        count = min(len(plan.blocks), gpus or sum(each // threads for each in cores))
        if not count:
            raise UserError(f"--cluster {address}: none of its machines has a GPU or a core to give -> start others")
        kind = ray.remote(num_cpus=0 if gpus else threads, num_gpus=int(gpus > 0), scheduling_strategy="SPREAD")(Worker)
        given = (ray.put(encoder), str(dataset.path.resolve()), chosen, settings, threads)
        workers = [kind.remote() for _ in range(count)]
        machines, precisions = zip(*ray.get([worker.start.remote(*given) for worker in workers]), strict=True)
        if len(set(precisions)) > 1:
            raise UserError("--cluster: some machines choose bf16, some float32 -> choose one with --embed.precision")
        console.print(f"{counted(count, 'worker')} on {counted(len(set(machines)), 'machine')}", highlight=False)
        with progress("embedding on a cluster", len(plan.frames), "frames") as bar:
            pool = ray.util.ActorPool(workers)
            for number, order, vectors in pool.map_unordered(_block, range(len(plan.blocks))):
                results.append((order, vectors))
                bar.advance(plan.blocks[number].end - plan.blocks[number].begin)
    order, vectors = (np.concatenate(part) for part in zip(*results, strict=True))
    return as_table(dataset, units, order, vectors, encoder, precisions[0])


class Worker:
    """One process of the cluster with the encoder and the dataset, once it has been started.

    It is not started by its constructor, an error in which Ray takes for a crash: the reason would be lost.
    """

    def start(self, encoder: nn.Module, path: str, chosen: Ints, settings: Embed, threads: int) -> tuple[str, str]:
        """Makes everything ready; the machine, and the precision that was chosen on it."""
        import ray

        torch.set_num_threads(threads)  # sums are put together alike everywhere
        self.embedder = Embedder(encoder, settings)
        self.dataset = Dataset.open(path)
        self.plan = self.embedder.plan(self.dataset, chosen)
        return ray.get_runtime_context().get_node_id(), self.embedder.precision

    def block(self, number: int) -> tuple[int, Ints, NDArray[np.float32]]:
        """A block's number, tracklets and vectors."""
        return number, *self.embedder.vectors(self.dataset, self.plan, slice(number, number + 1))


def _block(worker: Any, number: int) -> Any:
    return worker.block.remote(number)
