"""python -m benchmarks.coverage [--simulations 400]

How often the 95 % intervals hold the truth, on simulated vectors: polyps that are not equally hard to recognise, two to
five tracklets of each. The truth is the mean of the figure over all simulations; 400 draws behind each interval. Beside
our weights (a pair inside a polyp weighs c), those of plain products (c²). Two minutes on one core.
"""

import argparse

import numpy as np

from benchmarks.result import Result
from polyptrace.evaluate import draw_counts, interval, mean_draws, reid, reid_draws, retrieval
from polyptrace.evaluate.reid import areas

DRAWS = 400


def simulated(seed: int, polyps: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors and polyps."""
    random = np.random.default_rng([seed, polyps])
    polyp = np.repeat(np.arange(polyps), random.integers(2, 6, polyps))
    hard = random.uniform(0.3, 1.5, polyps)[polyp, None]
    return random.standard_normal((polyps, 8))[polyp] + hard * random.standard_normal((len(polyp), 8)), polyp


def product_draws(vectors: np.ndarray, polyp: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(AUROC, AUPR) of each draw if every pair weighed the product of its polyps' counts."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    one, other = np.triu_indices(len(polyp), k=1)
    order = np.argsort(-(unit @ unit.T)[one, other])
    one, other = polyp[one[order]], polyp[other[order]]
    weight, same = counts[:, one] * counts[:, other], one == other
    return areas(weight * same, weight * ~same)


def measure(quick: bool = False, simulations: int = 0) -> Result:
    """Coverage and mean width, in standard deviations of the figure, for two numbers of polyps."""
    simulations = simulations or (4 if quick else 400)
    details = [("polyps", "", "mAP", "HR@1", "AUROC", "AUPR", "AUROC, c²", "AUPR, c²")]
    for polyps in (15, 30):
        values, bounds = [], []
        for seed in range(simulations):
            vectors, polyp = simulated(seed, polyps)
            counts = draw_counts(polyps, DRAWS, seed)
            found, judged = retrieval(vectors, polyp), reid(vectors, polyp)
            draws = [mean_draws(each, polyp[found.query], counts) for each in (found.ap, found.hit1)]
            draws += [*reid_draws(vectors, polyp, polyp, counts, judged), *product_draws(vectors, polyp, counts)]
            values.append([found.map, found.hr1, *[judged.auroc, judged.aupr] * 2])
            bounds.append([interval(each, polyps) for each in draws])
        truth, ends = np.mean(values, axis=0), np.array(bounds)
        covered = ((ends[..., 0] <= truth) & (truth <= ends[..., 1])).mean(axis=0)
        width = (ends[..., 1] - ends[..., 0]).mean(axis=0) / np.std(values, axis=0)
        details.append((str(polyps), "covered", *(f"{share:.3f}" for share in covered)))
        details.append((str(polyps), "width / sd", *(f"{each:.2f}" for each in width)))
    return Result("coverage", (), f"{simulations} simulations, {DRAWS} draws behind each interval.", tuple(details))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=400)
    print(measure(simulations=parser.parse_args().simulations).text())


if __name__ == "__main__":
    main()
