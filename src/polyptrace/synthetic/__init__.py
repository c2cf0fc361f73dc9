"""Generated procedures: colon, polyps, camera and workflow, rendered and written like any other source."""

from polyptrace.synthetic.generate import generate, write_coco, write_pictures
from polyptrace.synthetic.presets import PRESETS, Difficulty, Preset, Regime, find_preset, with_difficulty
from polyptrace.synthetic.procedure import Procedure, draw_procedure, draw_procedures
from polyptrace.synthetic.statistics import (
    MAX_HEIGHT,
    box_statistics,
    compare_pictures,
    find_recordings,
    measure_recording,
)

__all__ = [
    "MAX_HEIGHT",
    "PRESETS",
    "Difficulty",
    "Preset",
    "Procedure",
    "Regime",
    "box_statistics",
    "compare_pictures",
    "draw_procedure",
    "draw_procedures",
    "find_preset",
    "find_recordings",
    "generate",
    "measure_recording",
    "with_difficulty",
    "write_coco",
    "write_pictures",
]
