"""What every family of foundation models defines, and how a weights file is fitted to the model that it builds.

Each weight has one canonical name, whatever file or library it comes from. `Architecture.parts` translates the names of
a file and of the built model to canonical names, so that every tensor on both sides is accounted for.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from polyptrace.encoders.weights import Mismatch, wrong_type

#: Query, key and value that are stacked in one tensor.
QKV = (".attn.qkv.", (".attn.q.", ".attn.k.", ".attn.v."))


class Architecture(Protocol):
    """One model of a family."""

    @property
    def width(self) -> int:
        """Width of a token."""

    @property
    def prefix_tokens(self) -> int:
        """Tokens before those of the patches: the cls token, then registers; 0: no cls token."""

    @property
    def clip_length(self) -> int | None:
        """Frames in a clip of a video model; None: the model takes single frames."""

    @property
    def optional(self) -> tuple[re.Pattern[str], ...]:
        """Canonical names that a file may omit, all matches of a pattern or none; they are zero then."""

    @property
    def spare(self) -> tuple[re.Pattern[str], ...]:
        """Canonical names that a file may have although the frozen encoder does not use them."""

    def build(self, size: int, /) -> nn.Module:
        """The backbone for frames of `size` pixels, randomly initialised."""

    def tokens(self, backbone: nn.Module, frames: Tensor, /) -> Tensor:
        """Tokens (n, T, D) of frames (n, 3, H, W), or of clips (n, F, 3, H, W) for a video model."""

    def blocks(self, backbone: nn.Module, /) -> list[nn.Module]:
        """The repeated blocks, which take nearly all of the time."""

    def parts(self, key: str, /) -> tuple[str, ...]:
        """Canonical names of a tensor of a file or of the backbone; several if it stacks them along dimension 0."""

    def published(self, size: int, /) -> tuple[nn.Module, Callable[[Tensor], object]]:
        """The published model with its unused parts, and the call that the paper's FLOPs column counts."""


def rename(key: str, renames: tuple[tuple[str, str], ...]) -> str:
    """A key after all substitutions (pattern, replacement), in their order."""
    for pattern, replacement in renames:
        key = re.sub(pattern, replacement, key)
    return key


def split(key: str, whole: str, pieces: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the pieces that are stacked in a tensor, if its key contains `whole`."""
    return tuple(key.replace(whole, piece) for piece in pieces) if whole in key else (key,)


def patterns(*expressions: str) -> tuple[re.Pattern[str], ...]:
    """Regular expressions for whole names."""
    return tuple(re.compile(expression) for expression in expressions)


def members(backbone: nn.Module, path: str) -> list[nn.Module]:
    """The modules of the module list at `path`."""
    return list(cast("nn.ModuleList", backbone.get_submodule(path)))


def fit(
    given: Mapping[str, Tensor], wanted: Mapping[str, Tensor], architecture: Architecture
) -> tuple[dict[str, Tensor], Mismatch]:
    """The tensors of a file under the backbone's names and in its shapes, and what does not fit.

    Shapes may differ by dimensions of 1 (a linear layer and a 1 x 1 convolution). Omitted optional weights are zero.
    """
    pieces, origin, repeated = _canonical(given, architecture)
    parts_of = {key: architecture.parts(key) for key in wanted}
    needed = [part for parts in parts_of.values() for part in parts]
    absent = [part for part in needed if part not in pieces]
    omitted = _omitted(absent, needed, architecture.optional)
    fitted: dict[str, Tensor] = {}
    reshaped: list[str] = []
    retyped: list[str] = []
    for key, parts in parts_of.items():
        shapes = [piece.shape for piece in wanted[key].chunk(len(parts))]
        taken = [pieces[p] if p in pieces else torch.zeros(s) for p, s in zip(parts, shapes, strict=True)]
        wrong = [p for p, piece, shape in zip(parts, taken, shapes, strict=True) if _bare(piece.shape) != _bare(shape)]
        reshaped += [f"{origin[p]} is {tuple(pieces[p].shape)}, not {tuple(shapes[parts.index(p)])}" for p in wrong]
        types = [text for p in parts if p in pieces and (text := wrong_type(origin[p], pieces[p], wanted[key]))]
        retyped += types
        if not wrong and not types:
            shaped = [piece.float().reshape(shape) for piece, shape in zip(taken, shapes, strict=True)]
            fitted[key] = torch.cat(shaped) if len(shaped) > 1 else shaped[0]
    surplus = [part for part in pieces if part not in set(needed) and not _matches(part, architecture.spare)]
    unexpected = [*dict.fromkeys(origin[part] for part in surplus), *repeated]
    missing = [part for part in absent if part not in omitted]
    return fitted, Mismatch(tuple(missing), tuple(unexpected), tuple(reshaped), tuple(dict.fromkeys(retyped)))


def _canonical(
    given: Mapping[str, Tensor], architecture: Architecture
) -> tuple[dict[str, Tensor], dict[str, str], list[str]]:
    """Tensors by canonical name, the key of each in the file, and keys that repeat a weight or cannot be split."""
    pieces: dict[str, Tensor] = {}
    origin: dict[str, str] = {}
    repeated: list[str] = []
    for key, tensor in given.items():
        parts = architecture.parts(key)
        if any(part in pieces for part in parts) or (len(parts) > 1 and (not tensor.ndim or len(tensor) % len(parts))):
            repeated.append(key)
            continue
        whole = len(parts) == 1
        for part, piece in zip(parts, [tensor] if whole else tensor.chunk(len(parts)), strict=True):
            pieces[part], origin[part] = piece if whole else piece.clone(), key
    return pieces, origin, repeated


def _omitted(absent: Iterable[str], needed: Iterable[str], optional: tuple[re.Pattern[str], ...]) -> set[str]:
    """Absent names that a file may omit: either all names of a pattern are absent, or none may be."""
    absent = set(absent)
    groups = [{part for part in needed if pattern.fullmatch(part)} for pattern in optional]
    return {part for group in groups if group <= absent for part in group}


def _matches(name: str, known: tuple[re.Pattern[str], ...]) -> bool:
    return any(pattern.fullmatch(name) for pattern in known)


def _bare(shape: torch.Size) -> tuple[int, ...]:
    return tuple(length for length in shape if length != 1)
