"""Vectors of your own crops: one track as a whole, and the same track frame by frame.

python examples/embed_your_own_crops.py

The encoder here is small and untrained; use `load_encoder("runs/ours")` for a trained one.
"""

import numpy as np
from numpy.typing import NDArray

from polyptrace.embed import OnlineEncoder
from polyptrace.encoders import TrackletEncoder


def main() -> NDArray[np.float32]:
    """Embeds three tracks of random crops; returns their cosine similarities (3, 3)."""
    encoder = TrackletEncoder(backbone="resnet10t", size=64)  # load_encoder("runs/ours")
    online = OnlineEncoder(encoder)
    random = np.random.default_rng(0)

    vectors = []
    for _ in range(3):
        crops = random.integers(0, 256, (8, 64, 64, 3), np.uint8)  # (L, H, W, RGB): boxes enlarged 5 times
        whole = online.track().add(crops)  # (D,)
        running = online.track()
        for crop in crops:
            latest = running.add(crop)  # the vector of the track so far
        assert np.allclose(whole, latest, atol=1e-3)
        vectors.append(whole / np.linalg.norm(whole))
    similarity = np.stack(vectors) @ np.stack(vectors).T
    print(np.round(similarity, 3))
    return similarity


if __name__ == "__main__":
    main()
