import pytest
import torch

from polyptrace.core.errors import UserError
from polyptrace.encoders.foundation.foundation_encoder import Pooling, parse_pooling, pool_frames, pool_tokens

TOKENS = torch.randn(2, 7, 3, generator=torch.Generator().manual_seed(0))  # cls, two registers, four patches


def test_each_pooling_takes_its_tokens() -> None:
    expected = {
        "cls": TOKENS[:, 0],
        "mean": sum(TOKENS[:, t] for t in range(7)) / 7,
        "patch-mean": sum(TOKENS[:, t] for t in range(3, 7)) / 4,
    }
    for text, vectors in expected.items():
        torch.testing.assert_close(pool_tokens(TOKENS, parse_pooling(text, 3), 3), vectors)
    joined = pool_tokens(TOKENS, parse_pooling("patch-mean+cls", 3), 3)
    torch.testing.assert_close(joined, torch.cat([expected["patch-mean"], expected["cls"]], dim=1))


def test_half_tokens_are_averaged_in_float32() -> None:
    tokens = torch.full((1, 1000, 1), 1.0, dtype=torch.bfloat16)
    tokens[0, 0] = 3
    pooled = pool_tokens(tokens, Pooling(("mean",), "mean"), 0)
    assert pooled.dtype == torch.float32
    assert pooled.item() == pytest.approx(1.002)


def test_frames_are_joined_by_mean_or_by_maximum_of_the_real_ones() -> None:
    vectors = torch.tensor([[[1.0, -5.0], [3.0, -7.0], [99.0, 99.0]]])
    mask = torch.tensor([[True, True, False]])
    assert pool_frames(vectors, mask, "mean").tolist() == [[2.0, -6.0]]
    assert pool_frames(vectors, mask, "max").tolist() == [[3.0, -5.0]]


@pytest.mark.parametrize(("text", "prefix"), [("median", 1), ("cls/median", 1), ("cls+", 1), ("", 1), ("cls", 0)])
def test_a_pooling_that_the_model_does_not_have_is_refused_with_the_choices(text: str, prefix: int) -> None:
    with pytest.raises(UserError, match=r"is not a pooling of this encoder -> give default, or one of .*mean"):
        parse_pooling(text, prefix)


@pytest.mark.parametrize("text", ["cls", "cls+patch-mean", "mean/max"])
def test_a_pooling_is_written_as_it_is_read(text: str) -> None:
    assert str(parse_pooling(text, 1)) == text
