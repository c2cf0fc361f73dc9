"""SurgeNet, built by timm as a CAFormer-S18 with ReLU where timm has StarReLU.

Files: flat, in the names of the MetaFormer authors, with a classifier that is not used. Linear layers of the first two
stages are 1 x 1 convolutions in timm.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from polyptrace.encoders.foundation.architecture import members, patterns, rename

#: What timm's names stand behind in the backbone: its `head.norm` is the last norm, that of files the classifier's.
TIMM = "caformer"

RENAMES = (
    (rf"^{TIMM}\.stem\.norm\.", "downsample_layers.0.post_norm."),
    (rf"^{TIMM}\.stem\.", "downsample_layers.0."),
    (rf"^{TIMM}\.stages\.(\d+)\.downsample\.norm\.", r"downsample_layers.\1.pre_norm."),
    (rf"^{TIMM}\.stages\.(\d+)\.downsample\.", r"downsample_layers.\1."),
    (rf"^{TIMM}\.stages\.(\d+)\.blocks\.", r"stages.\1."),
    (rf"^{TIMM}\.head\.norm\.", "norm."),
)

#: Classes of the head that the paper's parameter count includes, though nothing uses it.
UNUSED_CLASSES = 1


@dataclass(frozen=True)
class Surgenet:
    """Two stages of separable convolutions, two of attention; one vector per frame."""

    widths: tuple[int, int, int, int] = (64, 128, 320, 512)
    depths: tuple[int, int, int, int] = (3, 3, 9, 3)

    prefix_tokens = 0
    clip_length = None
    optional = patterns()
    spare = patterns(r"head\..*")

    @property
    def width(self) -> int:
        return self.widths[-1]

    def build(self, _size: int, /) -> nn.Module:
        """No part of it depends on the side of the frames."""
        return nn.Sequential(OrderedDict({TIMM: self._network(classes=0)}))

    def tokens(self, backbone: nn.Module, frames: Tensor, /) -> Tensor:
        """One token: the mean over the picture, normalised."""
        pooled: Tensor = backbone(frames)
        return pooled[:, None]

    def blocks(self, backbone: nn.Module, /) -> list[nn.Module]:
        return [block for s in range(len(self.depths)) for block in members(backbone, f"{TIMM}.stages.{s}.blocks")]

    def parts(self, key: str, /) -> tuple[str, ...]:
        return (rename(key, RENAMES),)

    def published(self, _size: int, /) -> tuple[nn.Module, Callable[[Tensor], object]]:
        """With the classifier that the paper's parameter count includes; its FLOPs stop before it."""
        whole = self._network(classes=UNUSED_CLASSES)
        return whole, lambda frames: whole.forward_head(whole.forward_features(frames), pre_logits=True)

    def _network(self, classes: int) -> Any:
        from timm.models import metaformer  # here: it takes seconds to load

        return metaformer.MetaFormer(
            num_classes=classes,
            depths=self.depths,
            dims=self.widths,
            token_mixers=[metaformer.SepConv] * 2 + [metaformer.Attention] * 2,
            norm_layers=[metaformer.LayerNorm2dNoBias] * 2 + [metaformer.LayerNormNoBias] * 2,
            mlp_act=nn.ReLU,
            act1_layer=nn.ReLU,
        )
