"""How many cores there are to work with."""

import os


def usable_cores() -> int:
    """Cores that this process may use: fewer than the machine has where a scheduler or container says so."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
