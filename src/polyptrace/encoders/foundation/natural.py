"""Models pretrained on natural images and videos, built by transformers: DINOv2, DINOv3 and V-JEPA2.

DINO's weights files come in several layouts: the hub's (names of transformers 5.17 or 5.22), Meta's own, and timm's.
They differ in names and in which weights are stacked (query, key and value; gate and up projection of the giant's
SwiGLU). timm's mirror of DINOv3 omits the query and value biases, which are all zero.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from polyptrace.encoders.foundation.architecture import Architecture

DINOV2_RENAMES = (
    (r"^dinov2\.", ""),
    (r"^embeddings\.patch_embeddings\.projection\.", "patch_embed.proj."),
    (r"^embeddings\.position_embeddings$", "pos_embed"),
    (r"^embeddings\.", ""),
    (r"^encoder\.layer\.", "blocks."),
    (r"\.attention\.(?:attention\.)?([qkv])(?:uery|ey|alue|_proj)\.", r".attn.\1."),
    (r"\.attention\.(?:output\.dense|o_proj)\.", ".attn.proj."),
    (r"\.layer_scale([12])\.lambda1$", r".ls\1.gamma"),
    (r"^layernorm\.", "norm."),
)

#: The giant's feed-forward layers: Meta's w12 and w3 are fc1 and fc2 in timm, weights_in and weights_out on the hub.
SWIGLU_RENAMES = (
    (r"\.mlp\.(?:w12|fc1|weights_in)\.", ".mlp.gate_up."),
    (r"\.mlp\.(?:w3|fc2|weights_out|down_proj)\.", ".mlp.down."),
    (r"\.mlp\.(gate|up)_proj\.", r".mlp.\1."),
)


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

    renames = DINOV2_RENAMES
    optional = ("mask_token",)
    spare = ("mask_token",)

    def build(self, _size: int, /) -> nn.Module:
        """Position embeddings are resized in every call, so the size is not needed."""
        from transformers import Dinov2Config, Dinov2Model  # here, because it takes seconds to import

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


DINOV3_RENAMES = (
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
    renames = DINOV3_RENAMES
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
        from transformers import DINOv3ViTConfig, DINOv3ViTModel  # here, because it takes seconds to import

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


VJEPA2_RENAMES = (
    (r"^encoder\.", ""),
    (r"^embeddings\.patch_embeddings\.", "patch_embed."),
    (r"^layer\.", "blocks."),
    (r"\.attention\.([qkv])(?:uery|ey|alue)\.", r".attn.\1."),
    (r"\.attention\.proj\.", ".attn.proj."),
    (r"^layernorm\.", "norm."),
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
    renames = VJEPA2_RENAMES
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
        from transformers import VJEPA2Config, VJEPA2Model  # here, because it takes seconds to import

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
