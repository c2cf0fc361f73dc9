"""EndoFM and EndoFM-LV, built by transformers as TimeSformers: attention over time, then over space, in every block.

Files: `teacher` (or `student`, behind `module.`) with names behind `backbone.`, and a projection head that is not
used. The two models differ in the length of the time embeddings alone: 8 frames and 32.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor, nn
from torch.nn import functional

from polyptrace.encoders.foundation.architecture import members, patterns, rename

RENAMES = (
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
    """The library's attention without its table of weights in memory, under the same names."""

    def __init__(self, qkv: nn.Linear, heads: int) -> None:
        super().__init__()
        self.qkv, self.heads = qkv, heads

    def forward(self, tokens: Tensor, output_attentions: bool = False) -> tuple[Tensor]:
        """Tokens (n, T, D), in the one-tuple that the library's block expects."""
        assert not output_attentions
        query, key, value = self.qkv(tokens).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        joined = functional.scaled_dot_product_attention(query, key, value)  # (n, heads, T, D / heads)
        return (joined.transpose(1, 2).flatten(2),)


@dataclass(frozen=True)
class Endofm:
    """A TimeSformer for clips of `clip_length` frames; `native` is the side that its position embeddings are for."""

    clip_length: int
    width: int = 768
    layers: int = 12
    heads: int = 12
    native: int = 224
    patch: int = 16

    prefix_tokens = 1
    optional = patterns()
    spare = patterns(r"head\..*")

    def build(self, size: int, /) -> nn.Module:
        from transformers import TimesformerConfig, TimesformerModel  # here: it takes seconds to load

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
        config.image_size = size  # its layers read the grid from here, not from the frames
        return backbone

    def tokens(self, backbone: nn.Module, frames: Tensor, /) -> Tensor:
        config: Any = backbone.config
        config.num_frames = frames.shape[1]  # its layers read the length from here, not from the clip
        tokens: Tensor = backbone(frames).last_hidden_state
        return tokens

    def blocks(self, backbone: nn.Module, /) -> list[nn.Module]:
        return members(backbone, "encoder.layer")

    def parts(self, key: str, /) -> tuple[str, ...]:
        return (rename(key, RENAMES),)

    def published(self, size: int, /) -> tuple[nn.Module, Callable[[Tensor], object]]:
        backbone = self.build(size)
        return backbone, lambda frames: self.tokens(backbone, frames)
