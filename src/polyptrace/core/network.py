"""Access to the Hugging Face hub, which fails at once without a network."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit
from urllib.request import getproxies

TIMEOUT = 3.0  # seconds


@contextmanager
def hub_or_cache() -> Iterator[None]:
    """Inside this block, downloads use only the local cache if the hub cannot be reached.

    Without it, the hub's client repeats each request for almost a minute before it reports the error.
    """
    from huggingface_hub import constants  # here, because it takes a moment to import

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = before or not _is_reachable(constants.ENDPOINT)
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _is_reachable(url: str) -> bool:
    """Whether a server accepts connections; with a proxy, this cannot be known in advance."""
    address = urlsplit(url)
    if getproxies().get(address.scheme):
        return True
    try:
        socket.create_connection((address.hostname or "", address.port or 443), TIMEOUT).close()
    except OSError:
        return False
    return True
