"""DINOv3, built by transformers: rotary positions, four register tokens, no key bias.

Files: the hub's (gated), Meta's own, and timm's mirror, which leaves out the query and value biases where they are
all zero. Must be in evaluation mode: training mode scales the rotary positions at random.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from polyptrace.encoders.foundation.architecture import QKV, members, patterns, rename, split

RENAMES = (
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
    """One of the three sizes."""

    width: int
    layers: int
    heads: int
    registers: int = 4
    patch: int = 16

    clip_length = None
    optional = patterns("mask_token", r"blocks\.\d+\.attn\.[qv]\.bias")
    #: Meta's files stack a key bias that its mask switches off, and the rotary periods, which are computed here.
    spare = patterns(
        "mask_token", r"blocks\.\d+\.attn\.k\.bias", r"blocks\.\d+\.attn\.[qkv]\.bias_mask", r"rope_embed\.periods"
    )

    @property
    def prefix_tokens(self) -> int:
        return 1 + self.registers

    def build(self, size: int, /) -> nn.Module:
        from transformers import DINOv3ViTConfig, DINOv3ViTModel  # here: it takes seconds to load

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
        return split(rename(key, RENAMES), *QKV)

    def published(self, size: int, /) -> tuple[nn.Module, Callable[[Tensor], object]]:
        backbone = self.build(size)
        return backbone, lambda frames: self.tokens(backbone, frames)
