"""The rows of the table that are trained: one file each, only what is its own; the loop is shared."""

from polyptrace.methods import ours
from polyptrace.methods.batch import Batch, Epoch, Method, Plan, Targets

METHODS = {method.name: method for method in (ours.METHOD,)}

__all__ = ["METHODS", "Batch", "Epoch", "Method", "Plan", "Targets"]
