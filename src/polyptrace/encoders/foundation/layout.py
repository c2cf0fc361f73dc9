"""Fits the tensors of a file to a built backbone through canonical names, and accounts for every key on both sides."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from polyptrace.encoders.foundation.architecture import Architecture


@dataclass(frozen=True)
class Misfit:
    """What keeps a file from being the weights of a backbone, in the words of the side where it stands."""

    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    misshapen: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected or self.misshapen)

    def __str__(self) -> str:
        lists = {"missing": self.missing, "unexpected": self.unexpected, "of another shape": self.misshapen}
        return "; ".join(f"{len(names)} {what}: {_shortened(names)}" for what, names in lists.items() if names)


def fit(
    found: Mapping[str, Tensor], wanted: Mapping[str, Tensor], architecture: Architecture
) -> tuple[dict[str, Tensor], Misfit]:
    """The tensors of a file under the backbone's keys and in its shapes, and what does not fit.

    Shapes may differ by dimensions of 1 (a linear layer and a 1 x 1 convolution). What a file may leave out is zero.
    """
    pieces, origin, twice = _canonical(found, architecture)
    parts_of = {key: architecture.parts(key) for key in wanted}
    needed = [part for parts in parts_of.values() for part in parts]
    absent = [part for part in needed if part not in pieces]
    forgiven = _forgiven(absent, needed, architecture.optional)
    fitted: dict[str, Tensor] = {}
    misshapen: list[str] = []
    for key, parts in parts_of.items():
        shapes = [piece.shape for piece in wanted[key].chunk(len(parts))]
        taken = [pieces[p] if p in pieces else torch.zeros(s) for p, s in zip(parts, shapes, strict=True)]
        wrong = [p for p, piece, shape in zip(parts, taken, shapes, strict=True) if _bare(piece.shape) != _bare(shape)]
        if wrong:
            misshapen += [
                f"{origin[p]} is {tuple(pieces[p].shape)}, not {tuple(shapes[parts.index(p)])}" for p in wrong
            ]
        else:
            shaped = [piece.float().reshape(shape) for piece, shape in zip(taken, shapes, strict=True)]
            fitted[key] = torch.cat(shaped) if len(shaped) > 1 else shaped[0]
    left_over = [part for part in pieces if part not in set(needed) and not _matches(part, architecture.spare)]
    unexpected = [*dict.fromkeys(origin[part] for part in left_over), *twice]
    missing = [part for part in absent if part not in forgiven]
    return fitted, Misfit(tuple(missing), tuple(unexpected), tuple(misshapen))


def _canonical(
    found: Mapping[str, Tensor], architecture: Architecture
) -> tuple[dict[str, Tensor], dict[str, str], list[str]]:
    """Tensors under canonical names, the key each came from, and keys that repeat what another one holds."""
    pieces: dict[str, Tensor] = {}
    origin: dict[str, str] = {}
    twice: list[str] = []
    for key, tensor in found.items():
        parts = architecture.parts(key)
        if any(part in pieces for part in parts) or (len(parts) > 1 and (not tensor.ndim or len(tensor) % len(parts))):
            twice.append(key)
            continue
        whole = len(parts) == 1
        for part, piece in zip(parts, [tensor] if whole else tensor.chunk(len(parts)), strict=True):
            pieces[part], origin[part] = piece if whole else piece.clone(), key
    return pieces, origin, twice


def _forgiven(absent: Iterable[str], needed: Iterable[str], optional: tuple[re.Pattern[str], ...]) -> set[str]:
    """Absent names that a file may leave out: a pattern's names are left out together or not at all."""
    absent = set(absent)
    groups = [{part for part in needed if pattern.fullmatch(part)} for pattern in optional]
    return {part for group in groups if group <= absent for part in group}


def _matches(name: str, known: tuple[re.Pattern[str], ...]) -> bool:
    return any(pattern.fullmatch(name) for pattern in known)


def _bare(shape: torch.Size) -> tuple[int, ...]:
    return tuple(length for length in shape if length != 1)


def _shortened(names: tuple[str, ...], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
