"""The rows of the table that are trained: one file each, only what is its own; the loop is shared."""

from polyptrace.methods import mve, ours, sfe, sup, ta, tpc
from polyptrace.methods.batch import Batch, Epoch, Method, Plan, Targets

#: By name, in the order of the table.
METHODS = {m.METHOD.name: m.METHOD for m in (sup, ta, tpc, mve, sfe, ours)}

__all__ = ["METHODS", "Batch", "Epoch", "Method", "Plan", "Targets"]
