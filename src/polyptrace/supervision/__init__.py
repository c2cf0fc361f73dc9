"""From time to associations: ranks, bags, curriculum, batches. Training code here cannot read polyp labels."""

from polyptrace.supervision.bags import nearest_bags, sample_bags, uniform_bags
from polyptrace.supervision.batches import BagBatches, anchor_count, check_batch, epoch_batches, steps_before
from polyptrace.supervision.curriculum import epoch_progress, temperature, temperature_at
from polyptrace.supervision.fitting import bursts, fitted_temperature
from polyptrace.supervision.purity import BagPurity, bag_purity, same_polyp
from polyptrace.supervision.ranks import ranks_of

__all__ = [
    "BagBatches",
    "BagPurity",
    "anchor_count",
    "bag_purity",
    "bursts",
    "check_batch",
    "epoch_batches",
    "epoch_progress",
    "fitted_temperature",
    "nearest_bags",
    "ranks_of",
    "same_polyp",
    "sample_bags",
    "steps_before",
    "temperature",
    "temperature_at",
    "uniform_bags",
]
