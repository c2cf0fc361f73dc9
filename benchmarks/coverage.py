"""python -m benchmarks coverage

Checks by simulation how often the 95 % confidence intervals contain the truth, and how often the paired test rejects a
true null hypothesis at p < 0.05 (type I error). The simulated test set has the size of REAL-Colon's: 19 procedures, 47
polyps, about 660 queries (280 for vectors).

The table of scenarios simulates the average precision of each query as polyp + training seed + seed x polyp + noise,
where the polyps of a procedure are correlated, and evaluates it as `polyptrace evaluate` does. "df = C - 1" is the same
test without Welch and Satterthwaite. The list of metrics simulates vectors of one training seed and computes all four
metrics. The lines of unequal seeds show what a row with a single training seed does to a test: its variance between
seeds is unknown and counts as zero. About four minutes on one core.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from benchmarks.result import Result, Row
from polyptrace.core.arrays import Floats, Ints
from polyptrace.evaluate import reid, retrieval
from polyptrace.evaluate.bootstrap import Estimate, draw_counts, interval, mean_draws, paired

PROCEDURES, POLYPS, DRAWS = 19, 47, 400
SIMULATIONS, VECTOR_SIMULATIONS = 1500, 200
#: Sets of bootstrap draws that the simulations share.
DRAW_SETS = 20


@dataclass(frozen=True)
class Scenario:
    """Standard deviations relative to that between polyps, and the correlation of polyps of a procedure."""

    name: str
    seed: float  # between training seeds; the mean over 47 independent polyps varies by 0.15
    correlation: float = 0.0
    interaction: float = 0.3  # seed x polyp


SCENARIOS = (
    Scenario("seeds dominate", seed=2.0),
    Scenario("seeds and polyps", seed=0.25),
    Scenario("seeds x polyps dominate", seed=0.0, interaction=3.0),
    Scenario("polyps dominate", seed=0.05),
    Scenario("polyps dominate", seed=0.05, correlation=0.2),
    Scenario("polyps dominate", seed=0.05, correlation=0.4),
    Scenario("seeds and polyps", seed=0.25, correlation=0.4),
)


@dataclass(frozen=True)
class TestSet:
    """Polyp of each query, procedure of each polyp."""

    polyp: Ints  # (Q,)
    procedure: Ints  # (POLYPS,)

    @classmethod
    def draw(cls, random: np.random.Generator, most: int = 25) -> "TestSet":
        """A test set with 3 to `most` queries of each polyp."""
        others = random.integers(0, PROCEDURES, POLYPS - PROCEDURES)
        procedure = np.sort(np.concatenate([np.arange(PROCEDURES), others]))
        return cls(np.repeat(np.arange(POLYPS), random.integers(3, most + 1, POLYPS)), procedure)

    def clusters(self, kind: str) -> Ints:
        return self.polyp if kind == "polyp" else self.procedure[self.polyp]


def average_precisions(test: TestSet, seeds: int, scenario: Scenario, random: np.random.Generator) -> Floats:
    """Average precision of each query (S, Q) by S training seeds of a method; the truth is 0."""
    shared = np.sqrt(scenario.correlation) * random.standard_normal(PROCEDURES)[test.procedure]
    polyp = shared + np.sqrt(1 - scenario.correlation) * random.standard_normal(POLYPS)
    polyp = polyp + scenario.interaction * random.standard_normal((seeds, POLYPS))
    noise = 0.5 * random.standard_normal((seeds, len(test.polyp)))
    return polyp[:, test.polyp] + noise + scenario.seed * random.standard_normal((seeds, 1))


def estimate(values: Floats, cluster: Ints, counts: Ints) -> Estimate:
    """The mean over queries, as `evaluate` and `combine` compute it."""
    draws = np.stack([mean_draws(each, cluster, counts) for each in values])
    return Estimate(values.mean(axis=1), draws, counts.shape[1])


def p_cluster_degrees(one: Estimate, other: Estimate) -> float:
    """p with C - 1 degrees of freedom, whatever the number of seeds."""
    drawn = one.mean_draws - other.mean_draws
    variance = drawn.var() * one.clusters / (one.clusters - 1) + one.seed_part[0] + other.seed_part[0]
    return float(2 * stats.t.sf(abs(one.value - other.value) / np.sqrt(variance), one.clusters - 1))


def simulate(scenario: Scenario, seeds: int, simulations: int) -> tuple[float, ...]:
    """Type I error by procedure, by procedure with C - 1 degrees of freedom, and by polyp; coverage by both."""
    draws = {
        kind: [draw_counts(clusters, DRAWS, seed) for seed in range(DRAW_SETS)]
        for kind, clusters in (("video", PROCEDURES), ("polyp", POLYPS))
    }
    results = []
    for simulation in range(simulations):
        random = np.random.default_rng([simulation, seeds])
        test = TestSet.draw(random)
        rows = [average_precisions(test, seeds, scenario, random) for _ in range(2)]
        by = {
            kind: [estimate(row, test.clusters(kind), draws[kind][simulation % DRAW_SETS]) for row in rows]
            for kind in draws
        }
        covered = [low <= 0 <= high for low, high in (by[kind][0].interval() for kind in ("video", "polyp"))]
        p = [paired(*by["video"]).p, p_cluster_degrees(*by["video"]), paired(*by["polyp"]).p]
        results.append([*(each < 0.05 for each in p), *covered])
    return tuple(np.mean(results, axis=0))


def unequal_seeds(scenario: Scenario, seeds: tuple[int, int], simulations: int) -> float:
    """Type I error by procedure, where the two methods have different numbers of training seeds."""
    draws = [draw_counts(PROCEDURES, DRAWS, seed) for seed in range(DRAW_SETS)]
    rejected = 0
    for simulation in range(simulations):
        random = np.random.default_rng([simulation, *seeds])
        test = TestSet.draw(random)
        rows = [average_precisions(test, number, scenario, random) for number in seeds]
        counts = draws[simulation % DRAW_SETS]
        rejected += paired(*(estimate(row, test.clusters("video"), counts) for row in rows)).p < 0.05
    return rejected / simulations


def simulated_vectors(seed: int, correlation: float) -> tuple[Floats, TestSet]:
    """Vectors of polyps that are not equally difficult; the difficulty is correlated in a procedure."""
    random = np.random.default_rng([seed, round(100 * correlation)])
    test = TestSet.draw(random, most=9)
    latent = np.sqrt(correlation) * random.standard_normal(PROCEDURES)[test.procedure]
    latent = latent + np.sqrt(1 - correlation) * random.standard_normal(POLYPS)
    noise = (0.3 + 1.2 * stats.norm.cdf(latent))[test.polyp, None]  # uniform between 0.3 and 1.5
    centres = random.standard_normal((POLYPS, 8))[test.polyp]
    return centres + noise * random.standard_normal((len(test.polyp), 8)), TestSet(test.polyp, test.procedure)


def vector_coverage(correlation: float, simulations: int) -> dict[str, Floats]:
    """Coverage of mAP, HR@1, AUROC and AUPR by procedure and by polyp; the truth is the mean of all simulations."""
    values, bounds = [], {"video": [], "polyp": []}
    for seed in range(simulations):
        vectors, test = simulated_vectors(seed, correlation)
        retrieved, judged = retrieval(vectors, test.polyp), reid(vectors, test.polyp)
        values.append([retrieved.map, retrieved.hr1, judged.auroc, judged.aupr])
        for kind, ends in bounds.items():
            cluster = test.clusters(kind)
            clusters = int(cluster.max()) + 1
            counts = draw_counts(clusters, DRAWS, seed)
            draws = [mean_draws(each, cluster[retrieved.query], counts) for each in (retrieved.ap, retrieved.hit1)]
            draws += judged.draws(cluster, counts)
            ends.append([interval(each, clusters) for each in draws])
    truth = np.mean(values, axis=0)
    return {
        kind: ((np.array(ends)[..., 0] <= truth) & (truth <= np.array(ends)[..., 1])).mean(axis=0)
        for kind, ends in bounds.items()
    }


def measure(quick: bool = False) -> Result:
    """Type I error and coverage in percent."""
    simulations, of_vectors = (4, 2) if quick else (SIMULATIONS, VECTOR_SIMULATIONS)
    header = (
        "",
        "correlation",
        "seeds",
        "type I",
        "type I, df = C - 1",
        "type I by polyp",
        "coverage",
        "coverage by polyp",
    )
    details = [header]
    for scenario in SCENARIOS:
        for seeds in (3, 5):
            shares = simulate(scenario, seeds, simulations)
            details.append(
                (scenario.name, f"{scenario.correlation:g}", str(seeds), *(f"{100 * share:.1f}" for share in shares))
            )
    rows = []
    for correlation in (0.0, 0.4):
        for kind, covered in vector_coverage(correlation, of_vectors).items():
            drawn = "procedures" if kind == "video" else "polyps"
            for metric, share in zip(("mAP", "HR@1", "AUROC", "AUPR"), covered, strict=True):
                rows.append(Row(f"coverage of {metric}, correlation {correlation:g}, {drawn} drawn", "%", 100 * share))
    for scenario in SCENARIOS[:2]:
        for seeds in ((5, 3), (5, 1)):
            share = unequal_seeds(scenario, seeds, simulations)
            rows.append(Row(f"type I error, {scenario.name}, {seeds[0]} and {seeds[1]} seeds", "%", 100 * share))
    note = (
        f"In percent; nominal: type I 5, coverage 95. {simulations} simulations per line ({of_vectors} of vectors),"
        f" {PROCEDURES} procedures, {POLYPS} polyps, {DRAWS} draws."
    )
    return Result("coverage", tuple(rows), note, tuple(details))
