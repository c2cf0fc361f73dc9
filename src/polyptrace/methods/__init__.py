"""The trained rows of the table: how each samples and what it optimises. The training loop is shared."""

from polyptrace.methods.method import Batch, Epoch, Targets, TrainingMethod, TrainingPlan
from polyptrace.methods.ours import OURS
from polyptrace.methods.supervised import SUP, TA
from polyptrace.methods.views import MVE, SFE, TPC

#: By name, in the order of the table.
METHODS: dict[str, TrainingMethod] = {method.name: method for method in (SUP, TA, TPC, MVE, SFE, OURS)}

__all__ = ["METHODS", "Batch", "Epoch", "Targets", "TrainingMethod", "TrainingPlan"]
