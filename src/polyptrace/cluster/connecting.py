"""The way to a Ray cluster, and errors as a user can read them."""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from polyptrace.core.errors import UserError


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Ray, connected to the cluster at `address`: `auto` (the one that runs here), `HOST:PORT`, or `local`, a new one.

    What a worker could not do for a reason that a user can put right is that reason here too.
    """
    if find_spec("ray") is None:
        raise UserError("--cluster: Ray is not installed -> pip install 'polyptrace[cluster]'")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody is told about a hospital's work
    import ray

    already = ray.is_initialized()
    if not already:
        try:
            _ask(address)
            ray.init(None if address == "local" else address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise UserError(
                f"--cluster {address}: no Ray cluster there ({reason}) -> start one with `ray start --head`, and"
                " `ray start --address HOST:PORT` on the other machines"
            ) from None
    try:
        yield ray
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, UserError):
            raise error.cause from None
        raise
    finally:
        if not already:
            ray.shutdown()


def _ask(address: str) -> None:
    """An OSError at once where nobody listens at HOST:PORT: Ray itself would wait for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "//" not in host:
        socket.create_connection((host, int(port)), timeout=5).close()
