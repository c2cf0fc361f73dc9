"""A forked process that is killed if it does not end in time."""

import os
import signal
import sys
import time
from collections.abc import Callable


def exit_code(work: Callable[[], object], limit: float) -> int:
    """Runs `work`, which ends its process, in a fork that is killed after `limit` seconds; negative: the signal."""
    sys.stdout.flush()
    until = time.monotonic() + limit
    process = os.fork()
    if not process:
        work()
    while not (status := os.waitpid(process, os.WNOHANG))[0]:
        if time.monotonic() > until:  # also in native code, which no other signal interrupts
            os.kill(process, signal.SIGKILL)
            status = os.waitpid(process, 0)
            break
        time.sleep(0.002)
    return os.waitstatus_to_exitcode(status[1])
