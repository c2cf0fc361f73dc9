"""A request to stop training: recorded once, delivered at the end."""

import signal

import pytest

from polyptrace.train import stopping
from polyptrace.train.stopping import StopRequest


def test_a_signal_is_recorded_and_delivered_at_the_end() -> None:
    before = signal.getsignal(signal.SIGINT)
    with StopRequest() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.signal == signal.SIGINT
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt):
        stop.deliver()


def test_the_same_request_through_two_signals_still_leaves_time_for_a_checkpoint() -> None:
    with StopRequest() as stop:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)  # as a terminal and a parent process send them
        assert stop.signal == signal.SIGINT


def test_a_later_second_signal_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "SAME_REQUEST", -1.0)
    with StopRequest():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
