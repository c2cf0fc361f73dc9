"""Procedures rendered from nothing: colon, polyps, camera and workflow, written as any source gives them."""

from polyptrace.synthetic.generate import draw_procedures, generate
from polyptrace.synthetic.pictures import HEIGHT, compare, find_recordings, measure_recording
from polyptrace.synthetic.presets import PRESETS, Difficulty, Preset, Regime, find_preset, with_difficulty
from polyptrace.synthetic.procedure import Procedure, draw_procedure
from polyptrace.synthetic.statistics import box_figures, colour_grid_map

__all__ = [
    "HEIGHT",
    "PRESETS",
    "Difficulty",
    "Preset",
    "Procedure",
    "Regime",
    "box_figures",
    "colour_grid_map",
    "compare",
    "draw_procedure",
    "draw_procedures",
    "find_preset",
    "find_recordings",
    "generate",
    "measure_recording",
    "with_difficulty",
]
