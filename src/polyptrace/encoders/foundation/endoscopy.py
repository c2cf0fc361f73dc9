"""Models pretrained on endoscopy and surgery: EndoFM, EndoFM-LV, EndoViT and SurgeNet."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from torch import Tensor, nn
from torch.nn import functional

from polyptrace.encoders.foundation.architecture import Architecture

ENDOFM_RENAMES = (
    (r"^timesformer\.", ""),
    (r"^embeddings\.patch_embeddings\.projection\.", "patch_embed.proj."),
    (r"^embeddings\.position_embeddings$", "pos_embed"),
    (r"^embeddings\.time_embeddings$", "time_embed"),
    (r"^embeddings\.", ""),
    (r"^encoder\.layer\.", "blocks."),
    (r"\.(temporal_)?attention\.attention\.qkv\.", r".\1attn.qkv."),
    (r"\.(temporal_)?attention\.output\.dense\.", r".\1attn.proj."),
    (r"\.temporal_layernorm\.", ".temporal_norm1."),
    (r"\.layernorm_before\.", ".norm1."),
    (r"\.layernorm_after\.", ".norm2."),
    (r"\.temporal_dense\.", ".temporal_fc."),
    (r"\.intermediate\.dense\.", ".mlp.fc1."),
    (r"\.output\.dense\.", ".mlp.fc2."),
    (r"^layernorm\.", "norm."),
)


class FusedAttention(nn.Module):
    """The attention of transformers with a fused kernel, which does not store the attention weights; same names."""

    def __init__(self, qkv: nn.Linear, heads: int) -> None:
        super().__init__()
        self.qkv, self.heads = qkv, heads

    def forward(self, tokens: Tensor, output_attentions: bool = False) -> tuple[Tensor]:
        """Tokens (n, T, D), in the tuple that the block of transformers expects."""
        assert not output_attentions
        query, key, value = self.qkv(tokens).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        joined = functional.scaled_dot_product_attention(query, key, value)  # (n, heads, T, D / heads)
        return (joined.transpose(1, 2).flatten(2),)


@dataclass(frozen=True)
class Endofm(Architecture):
    """EndoFM (clips of 8 frames) and EndoFM-LV (32), built as TimeSformers; they differ in the time embeddings only.

    Attention is over time, then over space, in every block. `native` is the side in pixels of the position embeddings.
    Files have `teacher` and `student` with names behind `backbone.`, and a projection head that is not used.
    """

    clip_length: int
    width: int = 768
    layers: int = 12
    heads: int = 12
    native: int = 224
    patch: int = 16

    renames = ENDOFM_RENAMES
    spare = (r"head\..*",)

    def build(self, size: int, /) -> nn.Module:
        from transformers import TimesformerConfig, TimesformerModel  # here, because it takes seconds to import

        config = TimesformerConfig(
            image_size=self.native,
            patch_size=self.patch,
            num_frames=self.clip_length,
            hidden_size=self.width,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            intermediate_size=4 * self.width,
        )
        make: Callable[[Any], nn.Module] = TimesformerModel
        backbone = make(config)
        for block in self.blocks(backbone):
            for attention in ("attention", "temporal_attention"):
                linear = cast("nn.Linear", block.get_submodule(f"{attention}.attention.qkv"))
                block.set_submodule(f"{attention}.attention", FusedAttention(linear, self.heads))
        config.image_size = size  # the layers take the grid from here, not from the frames
        return backbone

    def tokens(self, backbone: nn.Module, frames: Tensor, /) -> Tensor:
        config: Any = backbone.config
        config.num_frames = frames.shape[1]  # the layers take the length from here, not from the clip
        return super().tokens(backbone, frames)


ENDOVIT_RENAMES = (
    (r"^vit\.", ""),
    (r"^embeddings\.patch_embeddings\.projection\.", "patch_embed.proj."),
    (r"^embeddings\.position_embeddings$", "pos_embed"),
    (r"^embeddings\.", ""),
    (r"^(?:encoder\.layer|layers)\.", "blocks."),
    (r"\.attention\.(?:attention\.)?([qkv])(?:uery|ey|alue|_proj)\.", r".attn.\1."),
    (r"\.attention\.(?:output\.dense|o_proj)\.", ".attn.proj."),
    (r"\.layernorm_before\.", ".norm1."),
    (r"\.layernorm_after\.", ".norm2."),
    (r"\.intermediate\.dense\.", ".mlp.fc1."),
    (r"\.output\.dense\.", ".mlp.fc2."),
    (r"^layernorm\.", "norm."),
)

#: Classes of an unused head that the paper's parameter count includes.
ENDOVIT_CLASSES = 1000


@dataclass(frozen=True)
class Endovit(Architecture):
    """EndoViT, built as a ViT-B/16: the encoder of a masked autoencoder, whose decoder is not used.

    `native` is the side in pixels of the position embeddings. Tokens are those after the last norm; EndoViT's authors
    average the patches before it. Files have `model` with query, key and value stacked, decoder and mask token.
    """

    width: int = 768
    layers: int = 12
    heads: int = 12
    native: int = 224
    patch: int = 16

    renames = ENDOVIT_RENAMES
    layers_at = "layers"
    spare = ("mask_token", "decoder_.*")

    def build(self, _size: int, /) -> nn.Module:
        """Position embeddings are resized in every call, so the size is not needed."""
        from transformers import ViTModel  # here, because it takes seconds to import

        return ViTModel(self._config(), add_pooling_layer=False)

    def tokens(self, backbone: nn.Module, frames: Tensor, /) -> Tensor:
        tokens: Tensor = backbone(frames, interpolate_pos_encoding=True).last_hidden_state
        return tokens

    def published(self, _size: int, /) -> tuple[nn.Module, Callable[[Tensor], object]]:
        """With the classifier, which the paper's parameters include but its FLOPs do not."""
        from transformers import ViTForImageClassification  # here, because it takes seconds to import

        whole = ViTForImageClassification(self._config())
        return whole, lambda frames: self.tokens(whole.vit, frames)

    def _config(self) -> Any:
        from transformers import ViTConfig  # here, because it takes seconds to import

        config = ViTConfig(
            hidden_size=self.width,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            intermediate_size=4 * self.width,
            image_size=self.native,
            patch_size=self.patch,
            layer_norm_eps=1e-6,
        )
        config.num_labels = ENDOVIT_CLASSES
        return config


#: Prefix of timm's names in the backbone: timm's `head.norm` is the last norm, while that of files is the classifier's.
TIMM = "caformer"

SURGENET_RENAMES = (
    (rf"^{TIMM}\.stem\.norm\.", "downsample_layers.0.post_norm."),
    (rf"^{TIMM}\.stem\.", "downsample_layers.0."),
    (rf"^{TIMM}\.stages\.(\d+)\.downsample\.norm\.", r"downsample_layers.\1.pre_norm."),
    (rf"^{TIMM}\.stages\.(\d+)\.downsample\.", r"downsample_layers.\1."),
    (rf"^{TIMM}\.stages\.(\d+)\.blocks\.", r"stages.\1."),
    (rf"^{TIMM}\.head\.norm\.", "norm."),
)

#: Classes of an unused head that the paper's parameter count includes.
SURGENET_CLASSES = 1


@dataclass(frozen=True)
class Surgenet(Architecture):
    """SurgeNet, built by timm as a CAFormer-S18 with ReLU in place of StarReLU: one vector per frame.

    Two stages of separable convolutions, two of attention. Files are flat, in the names of the MetaFormer authors, with
    a classifier that is not used. Linear layers of the first two stages are 1 x 1 convolutions in timm.
    """

    widths: tuple[int, int, int, int] = (64, 128, 320, 512)
    depths: tuple[int, int, int, int] = (3, 3, 9, 3)

    width: int = field(init=False)

    prefix_tokens = 0
    renames = SURGENET_RENAMES
    spare = (r"head\..*",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", self.widths[-1])  # the dataclass is frozen

    def build(self, _size: int, /) -> nn.Module:
        """No part depends on the size."""
        return nn.Sequential(OrderedDict({TIMM: self._network(classes=0)}))

    def tokens(self, backbone: nn.Module, frames: Tensor, /) -> Tensor:
        """One token: the mean over the frame, normalised."""
        pooled: Tensor = backbone(frames)
        return pooled[:, None]

    def blocks(self, backbone: nn.Module, /) -> list[nn.Module]:
        stages = cast("Any", backbone.get_submodule(f"{TIMM}.stages"))
        return [block for stage in stages for block in stage.blocks]

    def published(self, _size: int, /) -> tuple[nn.Module, Callable[[Tensor], object]]:
        """With the classifier, which the paper's parameters include but its FLOPs do not."""
        whole = self._network(classes=SURGENET_CLASSES)
        return whole, lambda frames: whole.forward_head(whole.forward_features(frames), pre_logits=True)

    def _network(self, classes: int) -> Any:
        from timm.models import metaformer  # here, because it takes seconds to import

        return metaformer.MetaFormer(
            num_classes=classes,
            depths=self.depths,
            dims=self.widths,
            token_mixers=[metaformer.SepConv] * 2 + [metaformer.Attention] * 2,
            norm_layers=[metaformer.LayerNorm2dNoBias] * 2 + [metaformer.LayerNormNoBias] * 2,
            mlp_act=nn.ReLU,
            act1_layer=nn.ReLU,
        )
