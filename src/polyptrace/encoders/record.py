"""How an encoder was trained: written by training, kept in config.json, printed on the model card."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class TrainingRecord:
    """How an encoder was trained and what it reaches; empty fields are not known."""

    method: str = ""
    data: str = ""  # name of the dataset
    generated: bool | None = None  # whether its pictures were rendered, not recorded
    counts: dict[str, int] = field(default_factory=dict)  # videos, tracks, tracklets and crops of the dataset
    labels: str = ""  # polyp labels that training used
    steps: int = 0
    frames: int = 0  # frames seen
    seed: int | None = None
    init_from: str = ""  # encoder of the initial weights
    init_frames: int = 0  # frames that it had seen
    settings: dict[str, Any] = field(default_factory=dict)  # all settings of the training
    licence: str = "unknown"  # of the weights, as an identifier of the hub
    results: dict[str, str | float] = field(default_factory=dict)  # metric: value, with its confidence interval

    @property
    def total_frames(self) -> int:
        """Frames seen in this training and in those of the initial weights."""
        return self.frames + self.init_frames
