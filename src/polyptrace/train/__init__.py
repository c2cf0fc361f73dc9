"""The training loop on Lightning Fabric: one process or many, checkpoints, exact resumption."""

from polyptrace.train.hardware import SHARED_BY
from polyptrace.train.loop import train
from polyptrace.train.run import SECTIONS

__all__ = ["SECTIONS", "SHARED_BY", "train"]
