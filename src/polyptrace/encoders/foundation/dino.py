"""DINOv2 and DINOv3, built by transformers.

Weights files come in several layouts: the hub's (names of transformers 5.17 or 5.22), Meta's own, and timm's mirror.
They differ in names and in which weights are stacked (query, key and value; gate and up projection of the giant's
SwiGLU). timm's mirror of DINOv3 omits the query and value biases, which are all zero.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from polyptrace.encoders.foundation.architecture import QKV, members, patterns, rename, split

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
GATE_UP = (".mlp.gate_up.", (".mlp.gate.", ".mlp.up."))


@dataclass(frozen=True)
class Dinov2:
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

    prefix_tokens = 1
    clip_length = None
    optional = patterns("mask_token")
    spare = patterns("mask_token")

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

    def tokens(self, backbone: nn.Module, frames: Tensor, /) -> Tensor:
        tokens: Tensor = backbone(frames).last_hidden_state
        return tokens

    def blocks(self, backbone: nn.Module, /) -> list[nn.Module]:
        return members(backbone, "encoder.layer")

    def parts(self, key: str, /) -> tuple[str, ...]:
        name = rename(key, DINOV2_RENAMES + SWIGLU_RENAMES if self.swiglu else DINOV2_RENAMES)
        return split(name, *GATE_UP) if GATE_UP[0] in name else split(name, *QKV)

    def published(self, size: int, /) -> tuple[nn.Module, Callable[[Tensor], object]]:
        backbone = self.build(size)
        return backbone, lambda frames: self.tokens(backbone, frames)


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
class Dinov3:
    """DINOv3 in one of its three sizes: rotary positions, four register tokens, no key bias.

    It must be in evaluation mode, because training mode scales the rotary positions at random.
    """

    width: int
    layers: int
    heads: int
    registers: int = 4
    patch: int = 16

    clip_length = None
    optional = patterns("mask_token", r"blocks\.\d+\.attn\.[qv]\.bias")
    #: Meta's files contain a key bias that a mask disables, and the rotary periods, which are computed here.
    spare = patterns(
        "mask_token", r"blocks\.\d+\.attn\.k\.bias", r"blocks\.\d+\.attn\.[qkv]\.bias_mask", r"rope_embed\.periods"
    )

    @property
    def prefix_tokens(self) -> int:
        return 1 + self.registers

    def build(self, size: int, /) -> nn.Module:
        from transformers import DINOv3ViTConfig, DINOv3ViTModel  # here, because it takes seconds to import

        return DINOv3ViTModel(
            DINOv3ViTConfig(
                hidden_size=self.width,
                intermediate_size=4 * self.width,
                num_hidden_layers=self.layers,
                num_attention_heads=self.heads,
                num_register_tokens=self.registers,
                image_size=size,
                patch_size=self.patch,
            )
        )

    def tokens(self, backbone: nn.Module, frames: Tensor, /) -> Tensor:
        tokens: Tensor = backbone(frames).last_hidden_state
        return tokens

    def blocks(self, backbone: nn.Module, /) -> list[nn.Module]:
        return members(backbone, "model.layer")

    def parts(self, key: str, /) -> tuple[str, ...]:
        return split(rename(key, DINOV3_RENAMES), *QKV)

    def published(self, size: int, /) -> tuple[nn.Module, Callable[[Tensor], object]]:
        backbone = self.build(size)
        return backbone, lambda frames: self.tokens(backbone, frames)
