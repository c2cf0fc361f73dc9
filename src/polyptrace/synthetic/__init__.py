"""Generated procedures: colon, polyps, camera and workflow, rendered and written like any other source."""

from polyptrace.synthetic.generate import generate
from polyptrace.synthetic.presets import PRESETS, Difficulty, Preset, find_preset, with_difficulty

__all__ = ["PRESETS", "Difficulty", "Preset", "find_preset", "generate", "with_difficulty"]
