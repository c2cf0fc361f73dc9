"""Stopping a training run: a signal is recorded, and takes effect after a checkpoint."""

import signal
import threading
import time
from types import FrameType
from typing import Any, Self

from polyptrace.core.console import notify

#: Seconds within which several signals are one request: a scheduler, a terminal and a parent process may all send one.
SAME_REQUEST = 2.0


class StopRequest:
    """Records SIGINT (Ctrl-C) and SIGTERM while it is active. A later second signal takes effect at once.

    Signals can be handled in the main thread only; in other threads it does nothing.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._since = 0.0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def deliver(self) -> None:
        """Raises the recorded signal, after training has stopped and the handlers have been restored."""
        if self.signal is not None:
            signal.raise_signal(self.signal)

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self.signal is None:
            self.signal, self._since = number, time.monotonic()
            notify("stopping after this step, with a checkpoint; press Ctrl-C again to stop immediately")
        elif time.monotonic() - self._since > SAME_REQUEST:
            self._restore()
            signal.raise_signal(number)

    def _restore(self) -> None:
        while self._previous:
            signal.signal(*self._previous.popitem())
