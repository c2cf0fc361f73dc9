"""DINOv2, built by transformers: no registers, position embeddings for 37 x 37 patches, resized without antialiasing.

Files: the hub's (the names of transformers 5.17, or those of 5.22), Meta's own, and timm's mirror. They differ in names
and in what they stack: query, key and value; gate and up projection of the giant's SwiGLU.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from polyptrace.encoders.foundation.architecture import QKV, members, patterns, rename, split

RENAMES = (
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

#: The giant's feed-forward layers: Meta's w12 and w3 are fc1 and fc2 in timm, weights_in and weights_out in the hub's.
SWIGLU_RENAMES = (
    (r"\.mlp\.(?:w12|fc1|weights_in)\.", ".mlp.gate_up."),
    (r"\.mlp\.(?:w3|fc2|weights_out|down_proj)\.", ".mlp.down."),
    (r"\.mlp\.(gate|up)_proj\.", r".mlp.\1."),
)
GATE_UP = (".mlp.gate_up.", (".mlp.gate.", ".mlp.up."))


@dataclass(frozen=True)
class Dinov2:
    """One of the four sizes; `native` is the side in pixels that the position embeddings are for."""

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
        """Position embeddings are resized in every call, so the size does not matter here."""
        from transformers import Dinov2Config, Dinov2Model  # here: it takes seconds to load

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
        name = rename(key, RENAMES + SWIGLU_RENAMES if self.swiglu else RENAMES)
        return split(name, *GATE_UP) if GATE_UP[0] in name else split(name, *QKV)

    def published(self, size: int, /) -> tuple[nn.Module, Callable[[Tensor], object]]:
        backbone = self.build(size)
        return backbone, lambda frames: self.tokens(backbone, frames)
