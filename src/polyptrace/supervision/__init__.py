"""From time to associations: ranks, bags, curriculum, batches. Training code here cannot read polyp labels."""

from polyptrace.supervision.bags import nearest_bags, sample_bags
from polyptrace.supervision.curriculum import temperature

__all__ = ["nearest_bags", "sample_bags", "temperature"]
