"""What every family of foundation models says about itself: how it is built, called, and named in files."""

import re
from collections.abc import Callable
from typing import Protocol, cast

from torch import Tensor, nn


class Architecture(Protocol):
    """The shape of one model of a family.

    Weights have one name each, the canonical one, whatever file or library they stand in: `parts` gives the canonical
    names of what a key holds, several where one tensor stacks several weights along its first dimension.
    """

    @property
    def width(self) -> int:
        """Width of a token."""

    @property
    def prefix_tokens(self) -> int:
        """Tokens before those of the patches: the cls token first, then registers; 0: there is no cls token."""

    @property
    def clip_length(self) -> int | None:
        """Frames in a clip of a video model; None: the model sees single frames."""

    @property
    def optional(self) -> tuple[re.Pattern[str], ...]:
        """Canonical names that a file may leave out, all that match or none; they are zero then."""

    @property
    def spare(self) -> tuple[re.Pattern[str], ...]:
        """Canonical names that a file may have and the frozen encoder has no use for."""

    def build(self, size: int, /) -> nn.Module:
        """The backbone for frames of `size` pixels, initialised by the library that has it."""

    def tokens(self, backbone: nn.Module, frames: Tensor, /) -> Tensor:
        """Tokens (n, T, D) of frames (n, 3, H, W), or of clips (n, F, 3, H, W) for a video model."""

    def blocks(self, backbone: nn.Module, /) -> list[nn.Module]:
        """The repeated blocks, where nearly all the work is done."""

    def parts(self, key: str, /) -> tuple[str, ...]:
        """Canonical names of what a key of a file or of the built backbone holds."""

    def published(self, size: int, /) -> tuple[nn.Module, Callable[[Tensor], object]]:
        """The model as published, with the parts that we do not use, and what the paper's FLOPs column ran of it."""


def rename(key: str, renames: tuple[tuple[str, str], ...]) -> str:
    """A key after all substitutions (pattern, replacement), in their order."""
    for pattern, replacement in renames:
        key = re.sub(pattern, replacement, key)
    return key


def split(key: str, whole: str, pieces: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the pieces that are stacked in the tensor of a key that contains `whole`."""
    return tuple(key.replace(whole, piece) for piece in pieces) if whole in key else (key,)


def patterns(*expressions: str) -> tuple[re.Pattern[str], ...]:
    """Expressions that are to match whole names."""
    return tuple(re.compile(expression) for expression in expressions)


def members(backbone: nn.Module, path: str) -> list[nn.Module]:
    """The modules of the list that stands at `path`."""
    return list(cast("nn.ModuleList", backbone.get_submodule(path)))


#: Where query, key and value are stacked in one tensor.
QKV = (".attn.qkv.", (".attn.q.", ".attn.k.", ".attn.v."))
