import pytest
import torch

from polyptrace.core.errors import UserError
from polyptrace.encoders.foundation.foundation_encoder import check_pooling, pool_tokens

TOKENS = torch.randn(2, 7, 3, generator=torch.Generator().manual_seed(0))  # cls, two registers, four patches


def test_each_pooling_takes_its_tokens() -> None:
    expected = {
        "cls": TOKENS[:, 0],
        "mean": sum(TOKENS[:, t] for t in range(7)) / 7,
        "patch-mean": sum(TOKENS[:, t] for t in range(3, 7)) / 4,
    }
    for text, vectors in expected.items():
        torch.testing.assert_close(pool_tokens(TOKENS, text, 3), vectors)
    joined = pool_tokens(TOKENS, "patch-mean+cls", 3)
    torch.testing.assert_close(joined, torch.cat([expected["patch-mean"], expected["cls"]], dim=1))


def test_half_tokens_are_averaged_in_float32() -> None:
    tokens = torch.full((1, 1000, 1), 1.0, dtype=torch.bfloat16)
    tokens[0, 0] = 3
    pooled = pool_tokens(tokens, "mean", 0)
    assert pooled.dtype == torch.float32
    assert pooled.item() == pytest.approx(1.002)


@pytest.mark.parametrize(("text", "prefix"), [("median", 1), ("cls/max", 1), ("cls+", 1), ("", 1), ("cls", 0)])
def test_a_pooling_that_the_model_does_not_have_is_refused_with_the_choices(text: str, prefix: int) -> None:
    with pytest.raises(UserError, match=r"is not a pooling of this encoder -> give default, or one of .*mean"):
        check_pooling(text, prefix)
