"""Encoders: from the frames of a tracklet to its vector. The tracklet encoder, SFE's frame encoder and two baselines.

vectors = TrackletEncoder("resnet50", weights="imagenet")(frames, mask)  # (B, L, 3, H, W), (B, L) -> (B, 256)
vectors = FrameEncoder("resnet50", weights="imagenet")(frames, mask)  # -> (B, 128), the mean over the frames
vectors = FrozenBackbone("resnet50", "resnet50.safetensors")(frames, mask)  # -> (B, 2048)
vectors = ColourGrid()(frames, mask)  # -> (B, 192)

Tracklets of different lengths share a batch: a mask (B, L) is True where a frame is valid, False in the padding. Frames
in the padding never reach a backbone, so they change neither vectors nor batch statistics. Backbones are timm networks
without classifier (`create_backbone`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from polyptrace.core.errors import UserError
from polyptrace.encoders.preprocess import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    RELEASE,
    Preprocess,
    as_frames,
    choose_preprocess,
)
from polyptrace.encoders.weights import DEFAULT, default_folder, hub_or_cache, load_weights

#: Tags of torchvision's weights on the hub (IMAGENET1K_V2, then V1), preferred to timm's if both exist.
TORCHVISION_TAGS = ("tv2_in1k", "tv_in1k")

#: The name of a frozen backbone is this prefix and a timm model.
FROZEN = "frozen:"

#: Side of the colour grid, in cells.
GRID_SIDE = 8


#: What the training of an encoder used of polyp labels: nothing, the ids that linked its tracks, or polyp identities.
LABEL_USE = ("label-free", "label-free given tracks", "labels")


def most_labels(*uses: str) -> str:
    """The highest of some `LABEL_USE`; with an unknown one (""), only `labels` is certain."""
    if "" in uses:
        return LABEL_USE[-1] if LABEL_USE[-1] in uses else ""
    return max(uses, key=LABEL_USE.index)


@dataclass(frozen=True)
class TrainingRecord:
    """How an encoder was trained and what it reaches; empty fields are not known."""

    method: str = ""
    data: str = ""  # name of the dataset
    generated: bool | None = None  # whether its images were rendered, not recorded
    counts: dict[str, int] = field(default_factory=dict)  # videos, tracks, tracklets and crops of the dataset
    label_use: str = ""  # one of `LABEL_USE`, of this training or, if higher, of that of the initial weights
    labels: str = ""  # the same in words, with what the labels were used for
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


class BaseEncoder(nn.Module):
    """From the frames of tracklets to vectors.

    Called with prepared frames (B, L, 3, H, W) or uint8 crops (B, L, S, S, 3), and an optional mask (B, L) that is True
    for valid frames, it gives vectors (B, D).
    """

    name: str
    width: int  # of a vector (D)
    preprocess: Preprocess
    frozen = False  # whether it is not trained

    def train(self, mode: bool = True) -> Self:
        """Sets training mode; a frozen encoder stays in evaluation mode."""
        return super().train(mode and not self.frozen)


class FrameByFrame(BaseEncoder):
    """An encoder whose backbone takes single frames; by default, a tracklet's vector is the mean over its frames."""

    backbone: nn.Module

    def forward(self, frames: Tensor, mask: Tensor | None = None) -> Tensor:
        """Vectors (B, D) of prepared frames (B, L, 3, H, W) or of uint8 crops (B, L, S, S, 3)."""
        return self.aggregate(self.features(frames, mask), mask)

    def features(self, frames: Tensor, mask: Tensor | None) -> Tensor:
        """Features (B, L, F) of frames (B, L, 3, H, W) or of uint8 crops (B, L, S, S, 3), zero in the padding."""
        frames = as_frames(frames, self.preprocess)
        if mask is None:
            return self.frame_features(frames.flatten(0, 1)).reshape(*frames.shape[:2], -1)
        return scatter_features(self.frame_features(frames[mask]), mask.flatten().nonzero()[:, 0], mask)

    def frame_features(self, frames: Tensor) -> Tensor:
        """Features (n, F) of single frames (n, 3, H, W)."""
        return self.backbone(frames)

    def aggregate(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Vectors (B, D) of features (B, L, F)."""
        return mean_of_frames(features, mask)


class OwnEncoder(FrameByFrame, ABC):
    """An encoder that this package trains; it gives a token for the tracklet and one for each frame."""

    record = TrainingRecord()
    settings: dict[str, Any]  # arguments of its class, except for the weights
    projector: nn.Module  # from tokens (…, D) to the input of the loss (…, projection); used in training only

    def tokens(self, frames: Tensor, mask: Tensor | None = None) -> Tensor:
        """Outputs (B, 1 + L, D): that of the tracklet first, then one per frame, zero in the padding."""
        return self.tokens_of_features(self.features(frames, mask), mask)

    def aggregate(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Vectors (B, D) of features (B, L, F): the outputs of the tracklets."""
        return self.tokens_of_features(features, mask)[:, 0]

    @abstractmethod
    def tokens_of_features(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Outputs (B, 1 + L, D) of features (B, L, F)."""


class TrackletEncoder(OwnEncoder):
    """Frames -> backbone -> linear -> learnable token + transformer -> the token's output, for any number of frames.

    There is no position code, so the vector does not depend on the order of the frames.
    """

    def __init__(
        self,
        backbone: str = "resnet50",
        weights: str | None = "none",
        width: int = 256,
        layers: int = 3,
        heads: int = 8,
        feed_forward: int = 1024,
        dropout: float = 0.1,
        projector_hidden: int = 256,
        projection: int = 128,
        feature_norm: bool = False,
        output_norm: bool = False,
        size: int = RELEASE.size,
        name: str = "tracklet",
    ) -> None:
        settings = {key: value for key, value in locals().items() if key not in ("self", "weights", "__class__")}
        if width % heads:
            raise UserError(
                f"--encoder.heads {heads}: {width} (--encoder.width) is not a multiple of it -> change one of them"
            )
        super().__init__()
        self.settings, self.name, self.width = settings, name, width
        self.preprocess = replace(RELEASE, size=size)
        self.backbone = create_backbone(backbone, weights, size)
        self.adapter = nn.Linear(feature_width(self.backbone), width)
        self.feature_norm = nn.LayerNorm(width) if feature_norm else nn.Identity()
        self.token = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, feed_forward, dropout, batch_first=True) for _ in range(layers)
        )
        self.output_norm = nn.LayerNorm(width) if output_norm else nn.Identity()
        self.projector = nn.Sequential(
            nn.Linear(width, projector_hidden), nn.ReLU(), nn.Linear(projector_hidden, projection)
        )

    def tokens_of_features(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Outputs (B, 1 + L, D) of backbone features (B, L, F), zero in the padding."""
        frames = self.feature_norm(self.adapter(features))  # (B, L, D)
        token = self.token.to(frames.dtype).expand(frames.shape[0], 1, -1)
        tokens: Tensor = torch.cat([token, frames], dim=1)  # (B, T, D)
        valid = None if mask is None else torch.cat([mask.new_ones(mask.shape[0], 1), mask], dim=1)  # (B, T)
        for layer in self.layers:
            tokens = layer(tokens, src_key_padding_mask=None if valid is None else ~valid)
        tokens = self.output_norm(tokens)
        return tokens if valid is None else tokens * valid[..., None]


class FrameEncoder(OwnEncoder):
    """Backbone -> Linear, ReLU, Linear; the vector is the head's output, as published."""

    def __init__(
        self,
        backbone: str = "resnet50",
        weights: str | None = "none",
        projection: int = 128,
        size: int = RELEASE.size,
        name: str = "frame",
    ) -> None:
        super().__init__()
        self.settings = {"backbone": backbone, "projection": projection, "size": size, "name": name}
        self.name, self.width = name, projection
        self.preprocess = replace(RELEASE, size=size)
        self.backbone = create_backbone(backbone, weights, size)
        hidden = feature_width(self.backbone)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, projection))
        self.projector = nn.Identity()  # the loss takes the vectors themselves

    def frame_features(self, frames: Tensor) -> Tensor:
        """Head outputs (n, D) of single frames (n, 3, H, W)."""
        return self.head(self.backbone(frames))

    def tokens_of_features(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """The mean over valid frames first, then the head outputs (B, L, D) unchanged: (B, 1 + L, D)."""
        return torch.cat([mean_of_frames(features, mask)[:, None], features], dim=1)


class FrozenBackbone(FrameByFrame):
    """A pretrained timm backbone as a baseline: the vector of a tracklet is the mean of its frames' features.

    `weights` is `imagenet` (from the hub), `none`, or a file. `preprocess` is `own` (size and normalisation of the
    pretrained weights), `imagenet` (that size, ImageNet's normalisation) or `release` (232 pixels, 0.45, 0.225).
    Convolutional networks take smaller crops at their own size.
    """

    frozen = True

    def __init__(self, backbone: str, weights: str | Path = "imagenet", preprocess: str = "own") -> None:
        super().__init__()
        self.settings = {"backbone": backbone, "preprocess": preprocess}
        self.name = FROZEN + backbone
        self.preprocess = choose_preprocess(backbone_preprocess(backbone), preprocess)
        self.backbone = create_backbone(backbone, str(weights), self.preprocess.size, option="--weights")
        self.width = feature_width(self.backbone)
        self.requires_grad_(requires_grad=False).eval()


class ColourGrid(FrameByFrame):
    """8 x 8 mean colours of each crop, normalised as the input of our encoders: a baseline that learns nothing."""

    name = "colour-grid"
    width = GRID_SIDE * GRID_SIDE * 3
    preprocess = replace(RELEASE, size=4 * GRID_SIDE)

    def frame_features(self, frames: Tensor) -> Tensor:
        """Grids (n, D) of single frames (n, 3, H, W)."""
        return functional.adaptive_avg_pool2d(frames, GRID_SIDE).flatten(1)


def scatter_features(features: Tensor, index: Tensor, mask: Tensor) -> Tensor:
    """Features (n, F) at positions `index` (n,) of the B * L frames of the mask: (B, L, F), zero elsewhere."""
    empty = features.new_zeros(mask.numel(), features.shape[-1])
    return empty.index_copy(0, index, features).reshape(*mask.shape, -1)


def mean_of_frames(features: Tensor, mask: Tensor | None) -> Tensor:
    """Means (B, F) of features (B, L, F) over the valid frames; zero for a tracklet without one."""
    if mask is None:
        return features.mean(dim=1)
    valid = torch.where(mask[..., None], features, 0.0)
    return valid.sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp(min=1).to(features.dtype)


@contextmanager
def plain_attention() -> Iterator[None]:
    """Inside this block, transformer layers are plain operations, not torch's fused one: for ONNX and counters."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def create_backbone(
    name: str, weights: str | None = "none", size: int = 232, option: str = "--encoder.weights"
) -> nn.Module:
    """A timm network that gives one vector per frame, with `weights`: imagenet, default, none, or a file.

    `default` is the backbone of the encoder that comes with the package; only that architecture can have it. A file or
    folder of another encoder gives its backbone, too.
    `option` is the command-line option of the weights, for errors.
    """
    import timm  # here, because it takes seconds to import

    pretrained = _pretrained(name)
    options: dict[str, Any] = {"num_classes": 0}
    if pretrained is not None and pretrained.fixed_input_size:
        options["img_size"] = size
    backbone: nn.Module
    if weights == "imagenet":
        known, tagged = timm.list_pretrained(f"{name}.*"), [f"{name}.{tag}" for tag in TORCHVISION_TAGS]
        full_name = next((each for each in tagged if each in known), name)
        advice = f"give a file with {option} FILE, or use random weights with {option} none"
        with hub_or_cache(f"{option} imagenet: {full_name}", advice):
            backbone = timm.create_model(full_name, pretrained=True, **options)
        return backbone
    backbone = timm.create_model(name, **options)
    if weights not in (None, "none"):
        path = default_folder() if weights == DEFAULT else Path(str(weights))
        load_weights(backbone, path, f"{option} {weights}")
    return backbone


def feature_width(backbone: nn.Module) -> int:
    """Width of the vector that a timm network gives for one frame."""
    width = getattr(backbone, "head_hidden_size", None) or backbone.num_features
    assert isinstance(width, int)
    return width


def _pretrained(name: str) -> Any:
    """What timm says about the pretrained weights of a network; None if there are none."""
    import timm

    if not timm.is_model(name):
        near = ", ".join(get_close_matches(name, timm.list_models(), 3, 0.3))
        advice = f"did you mean {near}?" if near else "give one of timm.list_models(), such as resnet50"
        raise UserError(f"backbone: timm has no model {name!r} -> {advice}")
    return timm.get_pretrained_cfg(name)


def backbone_preprocess(name: str) -> Preprocess:
    """The preprocessing of a backbone's pretrained weights; that of ImageNet if it has none."""
    pretrained = _pretrained(name)
    if pretrained is None:
        return Preprocess(224, IMAGENET_MEAN, IMAGENET_STD, flexible=True)
    mean, std = ((float(r), float(g), float(b)) for r, g, b in (pretrained.mean, pretrained.std))
    return Preprocess(int(pretrained.input_size[-1]), mean, std, flexible=not pretrained.fixed_input_size)
