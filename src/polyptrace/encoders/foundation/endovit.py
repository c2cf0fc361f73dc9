"""EndoViT, built by transformers as a ViT-B/16: a masked autoencoder's encoder, whose decoder is not used.

Files: `model` beside a pickled argparse namespace, query, key and value stacked, decoder and mask token left in.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from polyptrace.encoders.foundation.architecture import QKV, members, patterns, rename, split

RENAMES = (
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

#: Classes of the head that the paper's parameter count includes, though nothing uses it.
UNUSED_CLASSES = 1000


@dataclass(frozen=True)
class Endovit:
    """A plain ViT; `native` is the side in pixels that its position embeddings are for."""

    width: int = 768
    layers: int = 12
    heads: int = 12
    native: int = 224
    patch: int = 16

    prefix_tokens = 1
    clip_length = None
    optional = patterns()
    spare = patterns("mask_token", "decoder_.*")

    def build(self, _size: int, /) -> nn.Module:
        """Position embeddings are resized in the call where the grid differs, so the size does not matter here."""
        from transformers import ViTModel  # here: it takes seconds to load

        return ViTModel(self._config(), add_pooling_layer=False)

    def tokens(self, backbone: nn.Module, frames: Tensor, /) -> Tensor:
        tokens: Tensor = backbone(frames, interpolate_pos_encoding=True).last_hidden_state
        return tokens

    def blocks(self, backbone: nn.Module, /) -> list[nn.Module]:
        return members(backbone, "layers")

    def parts(self, key: str, /) -> tuple[str, ...]:
        return split(rename(key, RENAMES), *QKV)

    def published(self, _size: int, /) -> tuple[nn.Module, Callable[[Tensor], object]]:
        """With the classifier that the paper's parameter count includes; its FLOPs stop before it."""
        from transformers import ViTForImageClassification  # here: it takes seconds to load

        whole = ViTForImageClassification(self._config())
        return whole, lambda frames: self.tokens(whole.vit, frames)

    def _config(self) -> Any:
        from transformers import ViTConfig  # here: it takes seconds to load

        config = ViTConfig(
            hidden_size=self.width,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            intermediate_size=4 * self.width,
            image_size=self.native,
            patch_size=self.patch,
            layer_norm_eps=1e-6,
        )
        config.num_labels = UNUSED_CLASSES
        return config
