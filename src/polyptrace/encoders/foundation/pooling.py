"""From tokens to one vector per frame or clip, and from those to one vector per tracklet.

A pooling is written `TOKENS` or `TOKENS/FRAMES`: `cls`, `mean` (every token), `patch-mean` (without cls and
registers), or several joined by `+`, which are concatenated; then `mean` (the default) or `max` over frames or clips.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from polyptrace.core.errors import UserError

OVER_TOKENS = ("cls", "mean", "patch-mean")
OVER_FRAMES = ("mean", "max")


@dataclass(frozen=True)
class Pooling:
    """What is taken of the tokens, and how frames are joined."""

    tokens: tuple[str, ...]
    frames: str

    def __str__(self) -> str:
        return "+".join(self.tokens) + ("" if self.frames == "mean" else f"/{self.frames}")


def choices(prefix_tokens: int) -> tuple[str, ...]:
    """What can be taken of the tokens of a model with that many tokens before its patches."""
    return OVER_TOKENS if prefix_tokens else ("mean",)


def parse_pooling(text: str, prefix_tokens: int) -> Pooling:
    """The pooling that a text names, checked against what the model has."""
    tokens, _, frames = text.partition("/")
    pooling = Pooling(tuple(tokens.split("+")), frames or "mean")
    known = choices(prefix_tokens)
    if pooling.frames not in OVER_FRAMES or any(token not in known for token in pooling.tokens):
        raise UserError(
            f"--embed.pooling: {text!r} is not a pooling of this encoder -> give default, or one of"
            f" {', '.join(known)}{' (or several joined by +)' if len(known) > 1 else ''}, and optionally /max"
        )
    return pooling


def pool_tokens(tokens: Tensor, pooling: Pooling, prefix_tokens: int) -> Tensor:
    """Vectors (n, D) of tokens (n, T, D), in float32 at least; concatenations are wider."""
    tokens = tokens.float() if tokens.dtype in (torch.bfloat16, torch.float16) else tokens
    taken = []
    for part in pooling.tokens:
        match part:
            case "cls":
                taken.append(tokens[:, 0])
            case "mean":
                taken.append(tokens.mean(dim=1))
            case _:
                taken.append(tokens[:, prefix_tokens:].mean(dim=1))
    return torch.cat(taken, dim=-1)


def pool_frames(vectors: Tensor, mask: Tensor, over: str) -> Tensor:
    """Vectors (B, D) of frames or clips (B, L, D) where the mask (B, L) is True."""
    if over == "max":
        return vectors.masked_fill(~mask[..., None], -torch.inf).amax(dim=1)
    return (vectors * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
