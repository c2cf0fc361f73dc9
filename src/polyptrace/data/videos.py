"""Video files, frame by frame."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from torch import Tensor


def frames(path: Path, frame_indices: Sequence[int]) -> Iterator[tuple[int, Tensor]]:
    """Decoded frames (3, H, W) of these ordinals."""
    raise NotImplementedError(path, frame_indices)
