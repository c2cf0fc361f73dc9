"""The trained rows of the table: one file per method. The training loop is shared."""

from polyptrace.methods import mve, ours, sfe, sup, ta, tpc
from polyptrace.methods.method import Batch, Epoch, Targets, TrainingMethod, TrainingPlan

#: By name, in the order of the table.
METHODS: dict[str, TrainingMethod] = {m.METHOD.name: m.METHOD for m in (sup, ta, tpc, mve, sfe, ours)}

__all__ = ["METHODS", "Batch", "Epoch", "Targets", "TrainingMethod", "TrainingPlan"]
