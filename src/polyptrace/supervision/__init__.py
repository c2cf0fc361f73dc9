"""From time to associations: ranks, bags, curriculum, batches. Only `purity`, a diagnostic, takes polyp labels."""

from polyptrace.supervision.bags import nearest_bags, sample_bags
from polyptrace.supervision.curriculum import temperature

__all__ = ["nearest_bags", "sample_bags", "temperature"]
