"""The paper's metrics on vectors from any program.

python examples/evaluate_your_own_vectors.py

For tables with confidence intervals, save an .npz with `vectors` and `polyp` and run
`polyptrace evaluate --embeddings FILE.npz`.
"""

import numpy as np

from polyptrace.evaluate import reid, retrieval


def main() -> dict[str, float]:
    """Evaluates noisy vectors of 20 polyps with 6 tracks each; returns the metrics as fractions."""
    random = np.random.default_rng(0)
    polyp = np.repeat([f"polyp-{n}" for n in range(20)], 6)  # (N,) label of each track
    centre = random.normal(size=(20, 32)).repeat(6, axis=0)
    vectors = (centre + random.normal(size=centre.shape)).astype(np.float32)  # (N, D)

    ranking, pairs = retrieval(vectors, polyp), reid(vectors, polyp)
    metrics = {
        "mAP": ranking.map,
        "HR@1": ranking.hr1,
        "HR@5": ranking.hr5,
        "AUROC": pairs.auroc,
        "AUPR": pairs.aupr,
    }
    for name, value in metrics.items():
        print(f"{name}: {100 * value:.1f}")
    return metrics


if __name__ == "__main__":
    main()
