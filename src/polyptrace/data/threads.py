"""The threads that decode pictures: what they share, how they stop, and how they keep out of each other's way."""

import ctypes
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Event, Lock

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # as in malloc.h
LARGEST_THRESHOLD = 1 << 25  # bytes: glibc before 2.35 refuses more, and would then map every picture anew


class Threads:
    """The threads that decode: they tell of pictures one at a time, and stop when they are told to."""

    def __init__(self, advance: Callable[[int], object]) -> None:
        self._advance, self._one_at_a_time, self._stop = advance, Lock(), Event()

    def moved(self) -> None:
        """Tells of a picture."""
        with self._one_at_a_time:
            self._advance(1)

    def go_on(self) -> None:
        """Raises where the work is to stop."""
        if self._stop.is_set():
            raise CancelledError

    @contextmanager
    def pool(self, count: int) -> Iterator[ThreadPoolExecutor]:
        """So many threads; an error or Ctrl-C drops what has not begun, and stops the rest at its next frame."""
        pool = ThreadPoolExecutor(count)
        try:
            yield pool
        finally:
            self._stop.set()
            pool.shutdown(cancel_futures=True)


def reuse_freed_memory() -> None:
    """Tells glibc to keep the megabytes of a decoded picture for the next one instead of returning them.

    By default each picture's memory is fresh from the kernel, page fault by page fault, and threads queue for it.
    """
    with suppress(OSError, AttributeError):  # another C library has no such setting
        glibc = ctypes.CDLL(None)
        glibc.mallopt(M_MMAP_THRESHOLD, LARGEST_THRESHOLD)
        glibc.mallopt(M_TRIM_THRESHOLD, 1 << 30)
