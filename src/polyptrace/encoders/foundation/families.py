"""The six families of foundation models: DINOv2, DINOv3 and V-JEPA2 (natural images and videos), EndoFM (with
EndoFM-LV), EndoViT and SurgeNet (endoscopy and surgery).

DINO's weights files come in several layouts: the hub's (names of transformers 5.17 or 5.22), Meta's own, and timm's.
They differ in names and in which weights are stacked (query, key and value; gate and up projection of the giant's
SwiGLU). timm's mirror of DINOv3 omits the query and value biases, which are all zero.

transformers and timm are imported where they are used, because they take seconds to import.
"""

import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from polyptrace.encoders.foundation.foundation_encoder import Architecture

#: From the names that transformers gives to the parts of a vision transformer.
VIT_RENAMES = (
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
    (r"\.layer_scale([12])\.lambda1$", r".ls\1.gamma"),
    (r"^layernorm\.", "norm."),
)

#: The giant's feed-forward layers: Meta's w12 and w3 are fc1 and fc2 in timm, weights_in and weights_out on the hub.
SWIGLU_RENAMES = (
    (r"\.mlp\.(?:w12|fc1|weights_in)\.", ".mlp.gate_up."),
    (r"\.mlp\.(?:w3|fc2|weights_out|down_proj)\.", ".mlp.down."),
    (r"\.mlp\.(gate|up)_proj\.", r".mlp.\1."),
)

#: Prefix of timm's names in SurgeNet: timm's `head.norm` is the last norm, while that of files is the classifier's.
TIMM = "caformer"


@dataclass(frozen=True)
class Transformer(Architecture):
    """A vision transformer, as transformers builds it; by default ViT-B.

    `native` is the side in pixels of the position embeddings, for families that have them.
    """

    width: int = 768
    layers: int = 12
    heads: int = 12
    native: int = 224

    patch = 16

    def arguments(self, **others: Any) -> dict[str, Any]:
        """The arguments of a configuration of transformers: those that all of them have, and others."""
        return {
            "hidden_size": self.width,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "patch_size": self.patch,
            **others,
        }


@dataclass(frozen=True)
class Dinov2(Transformer):
    """DINOv2 in one of its four sizes.

    No registers. Position embeddings are resized by bicubic interpolation without antialiasing, and without the offset
    of 0.1 that Meta's own code adds to the scale factor: this is what transformers and the published comparison do.
    """

    native: int = 518
    swiglu: bool = False

    patch = 14
    renames = ((r"^dinov2\.", ""), *VIT_RENAMES)
    optional = ("mask_token",)
    spare = ("mask_token",)

    def build(self, _size: int, /) -> nn.Module:
        """Position embeddings are resized in every call, so the size is not needed."""
        from transformers import Dinov2Config, Dinov2Model

        return Dinov2Model(Dinov2Config(**self.arguments(image_size=self.native, use_swiglu_ffn=self.swiglu)))

    def parts(self, key: str, /) -> tuple[str, ...]:
        for pattern, replacement in SWIGLU_RENAMES if self.swiglu else ():
            key = re.sub(pattern, replacement, key)
        return super().parts(key)


@dataclass(frozen=True)
class Dinov3(Transformer):
    """DINOv3 in one of its three sizes: rotary positions, four register tokens, no key bias.

    It must be in evaluation mode, because training mode scales the rotary positions at random.
    """

    prefix_tokens = 5  # cls and four registers
    renames = (
        (r"^(?:embeddings\.register_tokens|storage_tokens)$", "reg_token"),
        (r"^embeddings\.patch_embeddings\.", "patch_embed.proj."),
        (r"^(?:model\.)?layer\.", "blocks."),
        (r"\.attn\.([qv])_bias$", r".attn.\1.bias"),
        (r"\.gamma_([12])$", r".ls\1.gamma"),
        (r"\.mlp\.up_proj\.", ".mlp.fc1."),
        (r"\.mlp\.down_proj\.", ".mlp.fc2."),
        *VIT_RENAMES,
    )
    layers_at = "model.layer"
    optional = ("mask_token", r"blocks\.\d+\.attn\.[qv]\.bias")
    #: Meta's files contain a key bias that a mask disables, and the rotary periods, which are computed here.
    spare = (
        "mask_token",
        r"blocks\.\d+\.attn\.k\.bias",
        r"blocks\.\d+\.attn\.[qkv]\.bias_mask",
        r"rope_embed\.periods",
    )

    def build(self, size: int, /) -> nn.Module:
        from transformers import DINOv3ViTConfig, DINOv3ViTModel

        arguments = self.arguments(intermediate_size=4 * self.width, num_register_tokens=self.prefix_tokens - 1)
        return DINOv3ViTModel(DINOv3ViTConfig(**arguments, image_size=size))


@dataclass(frozen=True)
class Vjepa2(Transformer):
    """V-JEPA2, a video model without cls token: an encoder of 304 million parameters, a predictor of 22 million.

    The predictor is not used for features. Weights files: the hub's, and Meta's own, with `encoder`, `target_encoder`
    and `predictor`, names behind `module.backbone.`, and query, key and value stacked. As torch.hub and the hub's
    conversion do, `encoder` is loaded. The rotary grid depends on the size that the encoder is built for. Two frames
    make one layer of tokens, so the last frame of an odd clip is repeated; it would be dropped otherwise.
    """

    clip_length: int = 64

    tubelet = 2
    prefix_tokens = 0
    renames = (
        (r"^encoder\.", ""),
        (r"^embeddings\.patch_embeddings\.", "patch_embed."),
        (r"^layer\.", "blocks."),
        (r"\.attention\.proj\.", ".attn.proj."),
        *VIT_RENAMES,
    )
    layers_at = "layer"
    spare = (r"predictor\..*", "pos_embed")

    def build(self, size: int, /) -> nn.Module:
        return self._whole(size).encoder

    def tokens(self, backbone: nn.Module, frames: Tensor, /) -> Tensor:
        odd = -frames.shape[1] % self.tubelet
        frames = torch.cat([frames, frames[:, -1:].expand(-1, odd, -1, -1, -1)], dim=1)
        return super().tokens(backbone, frames)

    def published(self, size: int, /) -> tuple[nn.Module, Callable[[Tensor], object]]:
        """With the predictor, which predicts every token from every token, as in the model's own forward.

        That one cannot be called, because it reads values, which tensors without memory do not have.
        """
        whole = self._whole(size)

        def run(frames: Tensor) -> Tensor:
            predictor = whole.predictor
            tokens = self.tokens(whole.encoder, frames)  # (n, T, D)
            position = torch.arange(tokens.shape[1], device=tokens.device).repeat(len(tokens), 2)
            context = predictor.embeddings.predictor_embeddings(tokens)
            tokens = torch.cat([context, predictor.embeddings.mask_tokens[0].expand_as(context)], dim=1)
            for layer in predictor.layer:
                tokens = layer(tokens, position)[0]
            return predictor.proj(predictor.layernorm(tokens)[:, context.shape[1] :])

        return whole, run

    def _whole(self, size: int) -> Any:
        from transformers import VJEPA2Config, VJEPA2Model

        arguments = self.arguments(frames_per_clip=self.clip_length, tubelet_size=self.tubelet)
        return VJEPA2Model(VJEPA2Config(**arguments, crop_size=size))


@dataclass(frozen=True)
class Endofm(Transformer):
    """EndoFM (clips of 8 frames) and EndoFM-LV (32), built as TimeSformers; they differ in the time embeddings only.

    Attention is over time, then over space, in every block.
    Files have `teacher` and `student` with names behind `backbone.`, and a projection head that is not used.
    """

    clip_length: int = 8

    renames = (
        (r"^timesformer\.", ""),
        (r"^embeddings\.time_embeddings$", "time_embed"),
        (r"\.(temporal_)?attention\.attention\.qkv\.", r".\1attn.qkv."),
        (r"\.(temporal_)?attention\.output\.dense\.", r".\1attn.proj."),
        (r"\.temporal_layernorm\.", ".temporal_norm1."),
        (r"\.temporal_dense\.", ".temporal_fc."),
        *VIT_RENAMES,
    )
    spare = (r"head\..*",)

    def build(self, size: int, /) -> nn.Module:
        from transformers import TimesformerConfig, TimesformerModel

        arguments = self.arguments(num_frames=self.clip_length, intermediate_size=4 * self.width)
        config = TimesformerConfig(**arguments, image_size=self.native)
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
class Endovit(Transformer):
    """EndoViT, built as a ViT-B/16: the encoder of a masked autoencoder, whose decoder is not used.

    Tokens are those after the last norm; EndoViT's authors average the patches before it. Files have `model` with
    query, key and value stacked, decoder and mask token.
    """

    renames = ((r"^vit\.", ""), *VIT_RENAMES)
    layers_at = "layers"
    spare = ("mask_token", "decoder_.*")

    def build(self, _size: int, /) -> nn.Module:
        """Position embeddings are resized in every call, so the size is not needed."""
        from transformers import ViTModel

        return ViTModel(self._config(), add_pooling_layer=False)

    def tokens(self, backbone: nn.Module, frames: Tensor, /) -> Tensor:
        return backbone(frames, interpolate_pos_encoding=True).last_hidden_state

    def published(self, _size: int, /) -> tuple[nn.Module, Callable[[Tensor], object]]:
        """With a classifier of 1000 classes, which the paper's parameters include but its FLOPs do not."""
        from transformers import ViTForImageClassification

        whole = ViTForImageClassification(self._config())
        return whole, lambda frames: self.tokens(whole.vit, frames)

    def _config(self) -> Any:
        from transformers import ViTConfig

        arguments = self.arguments(intermediate_size=4 * self.width, layer_norm_eps=1e-6, num_labels=1000)
        return ViTConfig(**arguments, image_size=self.native)


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
    renames = (
        (rf"^{TIMM}\.stem\.norm\.", "downsample_layers.0.post_norm."),
        (rf"^{TIMM}\.stem\.", "downsample_layers.0."),
        (rf"^{TIMM}\.stages\.(\d+)\.downsample\.norm\.", r"downsample_layers.\1.pre_norm."),
        (rf"^{TIMM}\.stages\.(\d+)\.downsample\.", r"downsample_layers.\1."),
        (rf"^{TIMM}\.stages\.(\d+)\.blocks\.", r"stages.\1."),
        (rf"^{TIMM}\.head\.norm\.", "norm."),
    )
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
        """With a classifier of one class, which the paper's parameters include but its FLOPs do not."""
        whole = self._network(classes=1)
        return whole, lambda frames: whole.forward_head(whole.forward_features(frames), pre_logits=True)

    def _network(self, classes: int) -> Any:
        from timm.models import metaformer

        return metaformer.MetaFormer(
            num_classes=classes,
            depths=self.depths,
            dims=self.widths,
            token_mixers=[metaformer.SepConv] * 2 + [metaformer.Attention] * 2,
            norm_layers=[metaformer.LayerNorm2dNoBias] * 2 + [metaformer.LayerNormNoBias] * 2,
            mlp_act=nn.ReLU,
            act1_layer=nn.ReLU,
        )
