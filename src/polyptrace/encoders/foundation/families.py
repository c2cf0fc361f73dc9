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
class Dinov2(Architecture):
    """DINOv2 in one of its four sizes; `native` is the side in pixels of the position embeddings.

    No registers. Position embeddings are resized by bicubic interpolation without antialiasing, and without the offset
    of 0.1 that Meta's own code adds to the scale factor: this is what transformers and the published comparison do.
    """

    width: int
    layers: int
    heads: int
    swiglu: bool = False
    native: int = 518
    patch: int = 14

    renames = ((r"^dinov2\.", ""), *VIT_RENAMES, (r"\.layer_scale([12])\.lambda1$", r".ls\1.gamma"))
    optional = ("mask_token",)
    spare = ("mask_token",)

    def build(self, _size: int, /) -> nn.Module:
        """Position embeddings are resized in every call, so the size is not needed."""
        from transformers import Dinov2Config, Dinov2Model

        return Dinov2Model(
            Dinov2Config(
                hidden_size=self.width,
                num_hidden_layers=self.layers,
                num_attention_heads=self.heads,
                use_swiglu_ffn=self.swiglu,
                image_size=self.native,
                patch_size=self.patch,
            )
        )

    def parts(self, key: str, /) -> tuple[str, ...]:
        for pattern, replacement in SWIGLU_RENAMES if self.swiglu else ():
            key = re.sub(pattern, replacement, key)
        return super().parts(key)


@dataclass(frozen=True)
class Dinov3(Architecture):
    """DINOv3 in one of its three sizes: rotary positions, four register tokens, no key bias.

    It must be in evaluation mode, because training mode scales the rotary positions at random.
    """

    width: int
    layers: int
    heads: int
    patch: int = 16

    prefix_tokens = 5  # cls and four registers
    renames = (
        (r"^(?:embeddings\.register_tokens|storage_tokens)$", "reg_token"),
        (r"^embeddings\.patch_embeddings\.", "patch_embed.proj."),
        (r"^embeddings\.", ""),
        (r"^(?:model\.)?layer\.", "blocks."),
        (r"\.attention\.([qkv])_proj\.", r".attn.\1."),
        (r"\.attention\.o_proj\.", ".attn.proj."),
        (r"\.attn\.([qv])_bias$", r".attn.\1.bias"),
        (r"\.layer_scale([12])\.lambda1$", r".ls\1.gamma"),
        (r"\.gamma_([12])$", r".ls\1.gamma"),
        (r"\.mlp\.up_proj\.", ".mlp.fc1."),
        (r"\.mlp\.down_proj\.", ".mlp.fc2."),
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

        return DINOv3ViTModel(
            DINOv3ViTConfig(
                hidden_size=self.width,
                intermediate_size=4 * self.width,
                num_hidden_layers=self.layers,
                num_attention_heads=self.heads,
                num_register_tokens=self.prefix_tokens - 1,
                image_size=size,
                patch_size=self.patch,
            )
        )


@dataclass(frozen=True)
class Vjepa2(Architecture):
    """V-JEPA2, a video model without cls token: an encoder of 304 million parameters, a predictor of 22 million.

    The predictor is not used for features. Weights files: the hub's, and Meta's own, with `encoder`, `target_encoder`
    and `predictor`, names behind `module.backbone.`, and query, key and value stacked. As torch.hub and the hub's
    conversion do, `encoder` is loaded. The rotary grid depends on the size that the encoder is built for. Two frames
    make one layer of tokens, so the last frame of an odd clip is repeated; it would be dropped otherwise.
    """

    width: int = 1024
    layers: int = 24
    heads: int = 16
    predictor_width: int = 384
    predictor_layers: int = 12
    predictor_heads: int = 12
    clip_length: int = 64
    tubelet: int = 2
    patch: int = 16

    prefix_tokens = 0
    renames = (
        (r"^encoder\.", ""),
        (r"^embeddings\.patch_embeddings\.", "patch_embed."),
        (r"^layer\.", "blocks."),
        (r"\.attention\.([qkv])(?:uery|ey|alue)\.", r".attn.\1."),
        (r"\.attention\.proj\.", ".attn.proj."),
        (r"^layernorm\.", "norm."),
    )
    layers_at = "layer"
    spare = (r"predictor\..*", "pos_embed")

    def build(self, size: int, /) -> nn.Module:
        encoder: nn.Module = self._whole(size).encoder
        return encoder

    def tokens(self, backbone: nn.Module, frames: Tensor, /) -> Tensor:
        odd = -frames.shape[1] % self.tubelet
        frames = torch.cat([frames, frames[:, -1:].expand(-1, odd, -1, -1, -1)], dim=1)
        return super().tokens(backbone, frames)

    def parts(self, key: str, /) -> tuple[str, ...]:
        return (key,) if key.startswith("predictor.") else super().parts(key)

    def published(self, size: int, /) -> tuple[nn.Module, Callable[[Tensor], object]]:
        """With the predictor, which predicts every token from every token, as in the model's own forward."""
        whole = self._whole(size)

        def run(frames: Tensor) -> Tensor:
            predictor = whole.predictor
            tokens = self.tokens(whole.encoder, frames)  # (n, T, D)
            position = torch.arange(tokens.shape[1], device=tokens.device).repeat(len(tokens), 2)
            context = predictor.embeddings.predictor_embeddings(tokens)
            tokens = torch.cat([context, predictor.embeddings.mask_tokens[0].expand_as(context)], dim=1)
            for layer in predictor.layer:
                tokens = layer(tokens, position)[0]
            predicted: Tensor = predictor.proj(predictor.layernorm(tokens)[:, context.shape[1] :])
            return predicted

        return whole, run

    def _whole(self, size: int) -> Any:
        from transformers import VJEPA2Config, VJEPA2Model

        return VJEPA2Model(
            VJEPA2Config(
                crop_size=size,
                patch_size=self.patch,
                tubelet_size=self.tubelet,
                frames_per_clip=self.clip_length,
                hidden_size=self.width,
                num_hidden_layers=self.layers,
                num_attention_heads=self.heads,
                pred_hidden_size=self.predictor_width,
                pred_num_hidden_layers=self.predictor_layers,
                pred_num_attention_heads=self.predictor_heads,
            )
        )


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

    renames = ((r"^vit\.", ""), *VIT_RENAMES)
    layers_at = "layers"
    spare = ("mask_token", "decoder_.*")

    def build(self, _size: int, /) -> nn.Module:
        """Position embeddings are resized in every call, so the size is not needed."""
        from transformers import ViTModel

        return ViTModel(self._config(), add_pooling_layer=False)

    def tokens(self, backbone: nn.Module, frames: Tensor, /) -> Tensor:
        tokens: Tensor = backbone(frames, interpolate_pos_encoding=True).last_hidden_state
        return tokens

    def published(self, _size: int, /) -> tuple[nn.Module, Callable[[Tensor], object]]:
        """With a classifier of 1000 classes, which the paper's parameters include but its FLOPs do not."""
        from transformers import ViTForImageClassification

        whole = ViTForImageClassification(self._config())
        return whole, lambda frames: self.tokens(whole.vit, frames)

    def _config(self) -> Any:
        from transformers import ViTConfig

        config = ViTConfig(
            hidden_size=self.width,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            intermediate_size=4 * self.width,
            image_size=self.native,
            patch_size=self.patch,
            layer_norm_eps=1e-6,
        )
        config.num_labels = 1000
        return config


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
