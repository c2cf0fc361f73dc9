"""Loss and gradients of one batch in 1, 2 and 4 processes: python several_processes.py DATASET OUT

Writes OUT/N.pt for N processes: for each method and form the loss and every gradient. Processes are forked as torchrun
would start them: Fabric finds them by the same environment.
"""

import multiprocessing
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path

import torch
from lightning.fabric import Fabric
from torch import Tensor

from polyptrace.config import Config, Encoder, Loss, Supervision, Views
from polyptrace.data import Dataset
from polyptrace.data.crops.loader import CropLoader
from polyptrace.methods import METHODS
from polyptrace.train.feed import load_batches
from polyptrace.train.loop import Learner, step_loss

SMALL = Encoder("test_resnet", "none", width=16, layers=2, heads=2, feed_forward=24, dropout=0.0, projection=8)
BASE = Config(
    supervision=Supervision(bags_per_batch=4, bag_size=2),
    views=Views(batch=4, polyps_per_batch=2, tracklets_per_polyp=4),
    encoder=SMALL,
)
CASES = {
    "ours paper": ("ours", replace(BASE, loss=Loss(form="paper"))),
    "ours symmetric": ("ours", replace(BASE, loss=Loss(form="symmetric"))),
    "ours multi-positive": ("ours", replace(BASE, loss=Loss(name="multi-positive", form="symmetric"))),
    "ours, small videos": ("ours", replace(BASE, supervision=Supervision(bags_per_batch=8, bag_size=3))),
    "sfe": ("sfe", BASE),
    "mve": ("mve", BASE),
    "ta": ("ta", BASE),
}


def results(fabric: Fabric, dataset: Dataset) -> dict[str, dict[str, Tensor]]:
    """Loss and gradients of the first batch of each case; BatchNorm in evaluation mode, no dropout, float64."""
    actual = {}
    loader = CropLoader(dataset.crops, fabric.device)
    for name, (method_name, config) in CASES.items():
        torch.manual_seed(0)
        method = METHODS[method_name]
        encoder = method.encoder(replace(config, train=replace(config.train, method=method_name)), 32)
        learner = fabric.setup_module(Learner(encoder).double()).eval()
        data = dataset if method.sees_labels(config) else dataset.label_free()
        batch = method.plan(data, config).epoch(0, 2).batch(0)
        (loaded,) = load_batches([batch], loader, fabric.global_rank, fabric.world_size)
        loss, _ = step_loss(learner, loaded, method, config)
        fabric.backward(loss)
        gradients = {key: value.grad for key, value in encoder.named_parameters() if value.grad is not None}
        actual[name] = {"loss": loss.detach(), **gradients}
    return actual


def process(rank: int, processes: int, port: int, dataset: Dataset, out: Path) -> None:
    """One of the processes; the first writes what it found."""
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)  # or Fabric turns outputs into float32
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": processes, "LOCAL_WORLD_SIZE": processes}
    where = {"GROUP_RANK": 0, "MASTER_PORT": port, "MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_RUN_ID": "test"}
    os.environ.update({key: str(value) for key, value in (numbers | where).items()})
    strategy = "ddp" if processes > 1 else "auto"
    fabric = Fabric(accelerator="cpu", devices=processes, strategy=strategy, precision="64-true")
    fabric.launch()
    actual = results(fabric, dataset)
    if rank == 0:
        torch.save(actual, out / f"{processes}.pt")
    fabric.barrier()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


if __name__ == "__main__":
    opened = Dataset.open(sys.argv[1])
    forked = multiprocessing.get_context("fork")
    for processes in (1, 2, 4):
        port = free_port()
        started = [
            forked.Process(target=process, args=(rank, processes, port, opened, Path(sys.argv[2])))
            for rank in range(processes)
        ]
        for one in started:
            one.start()
        for one in started:
            one.join()
        if any(one.exitcode for one in started):
            sys.exit(1)
