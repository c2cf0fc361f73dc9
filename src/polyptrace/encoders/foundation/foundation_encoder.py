"""Frozen foundation models as tracklet encoders: any number of frames in, one vector per tracklet out.

A pooling is `cls`, `mean` (all tokens), `patch-mean` (without cls token and registers), or several of them joined by
`+`, which are concatenated. The vector of a tracklet is the mean over its frames or clips.

A video model takes clips of a fixed length. A tracklet that is no longer than a clip is one, shorter, clip. A longer
one gives the smallest number of full clips that cover it, spread evenly from its first frame to its last. Neighbouring
clips overlap if the length is not a multiple of the clip's, so that every frame is used and no clip is cut short.

Each weight has one canonical name, whatever file or library it comes from. `Architecture.parts` translates the names of
a file and of the built model to canonical names, so that every tensor on both sides is accounted for.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import cast

import torch
from torch import Tensor, nn

from polyptrace.core.errors import UserError
from polyptrace.encoders.encoder import BaseEncoder, FrameByFrame, mean_of_frames
from polyptrace.encoders.preprocess import Preprocess, as_frames

POOLINGS = ("cls", "mean", "patch-mean")

#: Frames that go through a backbone at once, so that memory does not grow with the length of a track.
FRAMES_AT_ONCE = 512


#: Weights that are stacked in one tensor: query, key and value; gate and up projection.
STACKED = ((".attn.qkv.", (".attn.q.", ".attn.k.", ".attn.v.")), (".mlp.gate_up.", (".mlp.gate.", ".mlp.up.")))


class Architecture(ABC):
    """What every family of foundation models defines; an instance is one model."""

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
        return backbone(frames).last_hidden_state

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


class FoundationEncoder(BaseEncoder):
    """A frozen backbone and its pooling; vectors are float32 for half-precision weights."""

    frozen = True  # some backbones change their positions at random in training mode

    def __init__(
        self, name: str, architecture: Architecture, backbone: nn.Module, preprocess: Preprocess, pooling: str
    ) -> None:
        super().__init__()
        self.name = name
        self.architecture = architecture
        self.preprocess = preprocess
        self.pooling = pooling
        self.width = architecture.width * len(pooling.split("+"))
        self.backbone = backbone
        self.requires_grad_(requires_grad=False).eval()

    def compile(self, *arguments: object, **options: object) -> None:
        """Compiles the backbone's blocks in place: they share one graph, so this takes seconds instead of minutes."""
        for block in self.architecture.blocks(self.backbone):
            block.compile(*arguments, **options)

    def _pooled(self, inputs: Tensor) -> Tensor:
        """Vectors (n, D) of frames (n, 3, H, W) or clips (n, F, 3, H, W)."""
        dtype = next(self.backbone.parameters()).dtype
        tokens = self.architecture.tokens(self.backbone, inputs.to(dtype))
        return pool_tokens(tokens, self.pooling, self.architecture.prefix_tokens)

    def _checked(self, frames: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Prepared frames of the right size, and a mask with at least one valid frame per tracklet."""
        frames, side = as_frames(frames, self.preprocess), self.preprocess.size
        if frames.shape[-2:] != (side, side):
            raise ValueError(f"{self.name} takes frames of {side} pixels, not {tuple(frames.shape[-2:])}")
        if mask is None:
            return frames, torch.ones(frames.shape[:2], dtype=torch.bool, device=frames.device)
        if not bool(mask.any(dim=1).all()):
            raise ValueError("a tracklet without a valid frame has no vector")
        return frames, mask


class FrameModelEncoder(FoundationEncoder, FrameByFrame):
    """A model of single frames: each frame goes through it once, and the vectors of the frames are averaged."""

    def forward(self, frames: Tensor, mask: Tensor | None = None) -> Tensor:
        """Vectors (B, D) of prepared frames (B, L, 3, H, W) or of uint8 crops (B, L, S, S, 3)."""
        return super().forward(*self._checked(frames, mask))

    def frame_features(self, frames: Tensor) -> Tensor:
        """Vectors (n, D) of single frames (n, 3, H, W)."""
        return torch.cat([self._pooled(some) for some in frames.split(FRAMES_AT_ONCE)])


class VideoModelEncoder(FoundationEncoder):
    """A model of clips: a tracklet is cut into clips of the model's length, and their vectors are averaged."""

    def forward(self, frames: Tensor, mask: Tensor | None = None) -> Tensor:
        """Vectors (B, D) of prepared frames (B, L, 3, H, W) or of uint8 crops (B, L, S, S, 3)."""
        assert self.architecture.clip_length is not None
        frames, mask = self._checked(frames, mask)
        groups = list(cut_clips(mask, self.architecture.clip_length))
        most = 1 + max(int(number.max()) for _, number, _ in groups)
        vectors = torch.zeros(len(frames), most, self.width, device=frames.device)
        present = torch.zeros(len(frames), most, dtype=torch.bool, device=frames.device)
        for clips in groups:
            at_once = max(1, FRAMES_AT_ONCE // clips[2].shape[1])
            for tracklet, number, index in zip(*(each.split(at_once) for each in clips), strict=True):
                pooled = self._pooled(frames[tracklet[:, None], index])
                vectors = vectors.to(pooled.dtype)
                vectors[tracklet, number] = pooled
                present[tracklet, number] = True
        return mean_of_frames(vectors, present)


def pooling_choices(prefix_tokens: int) -> tuple[str, ...]:
    """Poolings of a model with `prefix_tokens` tokens before its patches."""
    return POOLINGS if prefix_tokens else ("mean",)


def check_pooling(pooling: str, prefix_tokens: int) -> None:
    """Raises an error if a model does not have the tokens of a pooling."""
    known = pooling_choices(prefix_tokens)
    if any(part not in known for part in pooling.split("+")):
        raise UserError(
            f"--embed.pooling: {pooling!r} is not a pooling of this encoder -> give default, or one of"
            f" {', '.join(known)}{' (or several joined by +)' if len(known) > 1 else ''}"
        )


def pool_tokens(tokens: Tensor, pooling: str, prefix_tokens: int) -> Tensor:
    """Vectors (n, D) of tokens (n, T, D), at least in float32; concatenations are wider."""
    tokens = tokens.float() if tokens.dtype in (torch.bfloat16, torch.float16) else tokens
    first, parts = {"mean": 0, "patch-mean": prefix_tokens}, pooling.split("+")
    taken = [tokens[:, 0] if part == "cls" else tokens[:, first[part] :].mean(dim=1) for part in parts]
    return torch.cat(taken, dim=-1)


def clip_starts(length: int, clip_length: int) -> list[int]:
    """First frames of the clips of a tracklet of `length` frames."""
    if length <= clip_length:
        return [0]
    last, steps = length - clip_length, -(-length // clip_length) - 1
    return [(2 * last * step + steps) // (2 * steps) for step in range(steps + 1)]


def cut_clips(mask: Tensor, clip_length: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """The clips of a batch whose valid frames are True in the mask (B, L), grouped by length.

    A group of n clips of F frames is the tracklet of each clip (n,), its position among the clips of the tracklet (n,),
    and the indices of its frames in the tracklet (n, F).
    """
    by_length: dict[int, list[tuple[int, int, Tensor]]] = {}
    for tracklet, valid in enumerate(mask.cpu()):
        frames = valid.nonzero()[:, 0]
        length = min(len(frames), clip_length)
        for number, start in enumerate(clip_starts(len(frames), clip_length)):
            by_length.setdefault(length, []).append((tracklet, number, frames[start : start + length]))
    for _, clips in sorted(by_length.items()):
        tracklets, numbers, frames_of = zip(*clips, strict=True)
        position = torch.tensor([tracklets, numbers], device=mask.device)  # (2, n)
        yield position[0], position[1], torch.stack(frames_of).to(mask.device)
