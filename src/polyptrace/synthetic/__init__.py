"""Procedures rendered from nothing: colon, polyps, camera and workflow, written as any source gives them."""

from polyptrace.synthetic.generate import draw_procedures, generate
from polyptrace.synthetic.presets import PRESETS, Difficulty, Preset, find_preset, with_difficulty
from polyptrace.synthetic.procedure import Procedure, draw_procedure

__all__ = [
    "PRESETS",
    "Difficulty",
    "Preset",
    "Procedure",
    "draw_procedure",
    "draw_procedures",
    "find_preset",
    "generate",
    "with_difficulty",
]
