"""The training loop on Lightning Fabric: one process or several, checkpoints, exact resumption."""

from polyptrace.encoders.encoder_folder import ENCODER
from polyptrace.train.hardware import SHARED_BY
from polyptrace.train.loop import train, with_architecture
from polyptrace.train.run_folder import SECTIONS, read_environment

__all__ = ["ENCODER", "SECTIONS", "SHARED_BY", "read_environment", "train", "with_architecture"]
