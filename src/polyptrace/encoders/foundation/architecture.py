"""What every family of foundation models defines, and how a weights file is fitted to the model that it builds.

Each weight has one canonical name, whatever file or library it comes from. `Architecture.parts` translates the names of
a file and of the built model to canonical names, so that every tensor on both sides is accounted for.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import cast

import torch
from torch import Tensor, nn

from polyptrace.encoders.weights import Mismatch, wrong_type

#: Weights that are stacked in one tensor: query, key and value; gate and up projection.
STACKED = ((".attn.qkv.", (".attn.q.", ".attn.k.", ".attn.v.")), (".mlp.gate_up.", (".mlp.gate.", ".mlp.up.")))


class Architecture(ABC):
    """One model of a family; a subclass builds it."""

    width: int  # of a token
    prefix_tokens = 1  # before those of the patches: the cls token, then registers; 0: no cls token
    clip_length: int | None = None  # frames in a clip of a video model; None: the model takes single frames
    renames: tuple[tuple[str, str], ...] = ()  # (pattern, replacement) to canonical names, in their order
    optional: tuple[str, ...] = ()  # patterns of names that a file may omit, all matches or none; they are zero then
    spare: tuple[str, ...] = ()  # patterns of names that a file may have although the frozen encoder does not use them
    layers_at = "encoder.layer"  # the list of repeated blocks in the backbone

    @abstractmethod
    def build(self, size: int, /) -> nn.Module:
        """The backbone for frames of `size` pixels, randomly initialised."""

    def tokens(self, backbone: nn.Module, frames: Tensor, /) -> Tensor:
        """Tokens (n, T, D) of frames (n, 3, H, W), or of clips (n, F, 3, H, W) for a video model."""
        tokens: Tensor = backbone(frames).last_hidden_state
        return tokens

    def blocks(self, backbone: nn.Module, /) -> list[nn.Module]:
        """The repeated blocks, which take nearly all of the time."""
        return list(cast("nn.ModuleList", backbone.get_submodule(self.layers_at)))

    def parts(self, key: str, /) -> tuple[str, ...]:
        """Canonical names of a tensor of a file or of the backbone; several if it stacks them along dimension 0."""
        for pattern, replacement in self.renames:
            key = re.sub(pattern, replacement, key)
        stacked, pieces = next((each for each in STACKED if each[0] in key), ("", ("",)))
        return tuple(key.replace(stacked, piece) for piece in pieces) if stacked else (key,)

    def published(self, size: int, /) -> tuple[nn.Module, Callable[[Tensor], object]]:
        """The published model with its unused parts, and the call that the paper's FLOPs column counts."""
        backbone = self.build(size)
        return backbone, lambda frames: self.tokens(backbone, frames)


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


def _omitted(absent: Iterable[str], needed: Iterable[str], optional: tuple[str, ...]) -> set[str]:
    """Absent names that a file may omit: either all names of a pattern are absent, or none may be."""
    absent = set(absent)
    groups = [{part for part in needed if re.fullmatch(pattern, part)} for pattern in optional]
    return {part for group in groups if group <= absent for part in group}


def _matches(name: str, known: tuple[str, ...]) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in known)


def _bare(shape: torch.Size) -> tuple[int, ...]:
    return tuple(length for length in shape if length != 1)
