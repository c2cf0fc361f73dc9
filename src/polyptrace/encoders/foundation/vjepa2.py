"""V-JEPA2, built by transformers: a video encoder without cls token; its predictor is not used for features.

Weights files: the hub's, and Meta's own, with `encoder`, `target_encoder` and `predictor`, names behind
`module.backbone.`, and query, key and value stacked. `encoder` is loaded, as torch.hub and the hub's conversion do. The
rotary grid depends on the size that the encoder is built for. Two frames make one layer of tokens, so the last frame of
an odd clip is repeated; it would be dropped otherwise.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from polyptrace.encoders.foundation.architecture import QKV, members, patterns, rename, split

RENAMES = (
    (r"^encoder\.", ""),
    (r"^embeddings\.patch_embeddings\.", "patch_embed."),
    (r"^layer\.", "blocks."),
    (r"\.attention\.([qkv])(?:uery|ey|alue)\.", r".attn.\1."),
    (r"\.attention\.proj\.", ".attn.proj."),
    (r"^layernorm\.", "norm."),
)


@dataclass(frozen=True)
class Vjepa2:
    """The large model: an encoder of 304 million parameters, and a predictor of 22 million in its files."""

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
    optional = patterns()
    spare = patterns(r"predictor\..*", "pos_embed")

    def build(self, size: int, /) -> nn.Module:
        encoder: nn.Module = self._whole(size).encoder
        return encoder

    def tokens(self, backbone: nn.Module, frames: Tensor, /) -> Tensor:
        odd = -frames.shape[1] % self.tubelet
        frames = torch.cat([frames, frames[:, -1:].expand(-1, odd, -1, -1, -1)], dim=1)
        tokens: Tensor = backbone(frames).last_hidden_state
        return tokens

    def blocks(self, backbone: nn.Module, /) -> list[nn.Module]:
        return members(backbone, "layer")

    def parts(self, key: str, /) -> tuple[str, ...]:
        if key.startswith("predictor."):
            return (key,)
        return split(rename(key, RENAMES), *QKV)

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
