"""Preparation and embedding of many procedures, spread over a Ray cluster: the same bytes as on one machine.

Every machine sees the pictures, the dataset and the output under the same paths, on a file system they share, and has
this package installed. `pip install 'polyptrace[cluster]'` brings Ray.
"""

from polyptrace.cluster.connecting import connected
from polyptrace.cluster.embedding import embed_on
from polyptrace.cluster.preparing import fill_store_on

__all__ = ["connected", "embed_on", "fill_store_on"]
