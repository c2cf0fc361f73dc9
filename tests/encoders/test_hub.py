"""Access to the hub: an unreachable one is an error at once."""

import socket
import time

import pytest
from huggingface_hub import constants

from polyptrace.core.errors import UserError
from polyptrace.encoders import TrackletEncoder
from polyptrace.encoders.weights import hub_or_cache


class Connection:
    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyptrace.encoders.weights.getproxies", dict)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)


def refuse(*_: object) -> None:
    raise OSError("no network")


def test_without_a_network_only_the_cache_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "create_connection", refuse)
    with hub_or_cache("it", "try again"):
        assert constants.HF_HUB_OFFLINE
    assert not constants.HF_HUB_OFFLINE


def test_with_a_network_or_a_proxy_the_hub_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "create_connection", lambda *_: Connection())
    with hub_or_cache("it", "try again"):
        assert not constants.HF_HUB_OFFLINE
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr("polyptrace.encoders.weights.getproxies", lambda: {"https": "http://proxy:3128"})
    with hub_or_cache("it", "try again"):
        assert not constants.HF_HUB_OFFLINE


def test_default_weights_without_a_network_are_one_line_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import timm  # noqa: F401  # its import is not part of the measured time

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setenv("HF_HUB_CACHE", "/nonexistent")
    began = time.monotonic()
    with pytest.raises(UserError, match=r"^--encoder\.weights imagenet: .* -> .*--encoder\.weights none$"):
        TrackletEncoder(backbone="resnet34", weights="imagenet")
    assert time.monotonic() - began < 30
    assert "Retrying" not in capsys.readouterr().err
