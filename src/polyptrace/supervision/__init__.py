"""From time to associations: ranks, bags, curriculum, batches. Nothing here can read a polyp's identity."""

from polyptrace.supervision.bags import nearest_bags, sample_bags, uniform_bags
from polyptrace.supervision.batches import Epoch, anchor_count, check_world, epoch_batches, steps_before
from polyptrace.supervision.curriculum import progress, temperature, temperature_at
from polyptrace.supervision.fitting import bursts, fitted_temperature
from polyptrace.supervision.ranks import ranks_of

__all__ = [
    "Epoch",
    "anchor_count",
    "bursts",
    "check_world",
    "epoch_batches",
    "fitted_temperature",
    "nearest_bags",
    "progress",
    "ranks_of",
    "sample_bags",
    "steps_before",
    "temperature",
    "temperature_at",
    "uniform_bags",
]
