"""The fit of the probability that two tracks show the same lesion, with labels or without.

The parameters are fitted by EM on the pairs of tracks within procedures. Simultaneous pairs and pairs across
procedures are known negatives; labels and answers fix the pairs that they decide. Neighbouring tracks repeat each
other. So, with m and n tracks in the visits of its two tracks, a pair weighs 1 / sqrt(m n) in the densities, and
1 / (m n) in the prior of visits, which clustering uses: does this visit return to an earlier lesion? The prior of pairs
is fitted afterwards and weighs all pairs equally, with the same total: visits with many tracks are in many pairs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, logit

from polyptrace.core.arrays import Bools, Floats, Ints
from polyptrace.core.randomness import numpy_generator
from polyptrace.data.identity import polyp_keys
from polyptrace.embed import Embeddings
from polyptrace.lesions.same import (
    ASSUMED_FPS,
    Looks,
    ProcedureTracks,
    SameModel,
    TimePrior,
    encoder_of,
    fisher,
    procedures,
    recent,
)

#: Candidates for `half_s`.
HALVES_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
#: Fewest procedures whose mean vector is subtracted.
MIN_CENTRE = 4
#: Pairs used by the fit: more are drawn at random.
MAX_PAIRS = 60_000
#: Weight of what is assumed beforehand about the densities, in pairs.
ASSUMED_PAIRS = 10.0
#: How much more alike two lesions of one procedure are assumed to be than lesions of two, in standard deviations.
SHIFT = 0.35
#: How much more alike one lesion is assumed to be after a long gap than two lesions, in standard deviations, and the
#: weight of this assumption in pairs: returns are too rare and too hard to recognise to be estimated alone.
FAR, FAR_PAIRS = 1.0, 30.0
#: What is assumed beforehand about the prior of pairs and that of visits: means and standard deviations of floor and
#: ceiling (logit), pause (log(1 + s)) and steepness (log). Vectors alone hardly tell how often lesions are seen again.
#: The pause follows REAL-Colon, where the pauses of procedures with one lesion are up to 15 s long.
PAIR_PRIOR = np.array([logit(0.1), logit(0.97), np.log1p(15.0), np.log(3.0)])
VISIT_PRIOR = np.array([logit(0.3), logit(0.985), np.log1p(18.0), np.log(3.0)])
PRIOR_SD = np.array([0.5, 0.35, 0.2, 0.25])
PRIOR_BOUNDS = ((-7.0, 7.0), (-7.0, 7.0), (0.1, 8.0), (-2.0, 3.0))
#: Fisher's y of different and of the same lesions, where one procedure is all there is.
ASSUMED_NEGATIVE, ASSUMED_SD, ASSUMED_POSITIVE = 0.2, 0.3, 1.0
ITERATIONS = 100
TOLERANCE = 1e-4


def fit_same(tracks: Embeddings, *, labels: bool = False, answers: Sequence[tuple[int, int, bool]] = ()) -> SameModel:
    """Fits the model on whole tracks: without labels, or with the polyps (`labels`) or some pairs of rows (`answers`).

    Answers are (row, row, same). Pairs that neither decides are estimated by EM beside them.
    """
    centre = _centre(tracks)
    groups = list(procedures(tracks, centre))
    data = _collect(tracks, groups, labels, answers)
    assumptions = []
    if not (tracks.fps > 0).all():
        assumptions.append(f"the frame rate of some tracks is unknown: {ASSUMED_FPS:g} frames per second are assumed")
    if len(groups) < 2:
        assumptions.append(
            "one procedure only: there are no pairs across procedures that show how similar different lesions are,"
            " so their similarity is estimated from tracks far apart in time and from general values"
        )
    if not len(data.y):
        assumptions.append("no pair of tracks to fit on: general values are used")
    looks, visits = _em(data, data.repeats, VISIT_PRIOR)
    average = np.full(len(data.y), len(data.y) / max(float((1 / data.repeats).sum()), 1e-9))
    _, prior = _em(data, average, PAIR_PRIOR, looks)
    return SameModel(
        encoder=encoder_of(tracks),
        dataset=", ".join(sorted(set(tracks.dataset.tolist()))),
        width=int(tracks.vectors.shape[1]),
        centre=centre,
        looks=looks,
        prior=prior,
        visits=visits,
        procedures=len(groups),
        pairs=data.total,
        labelled_pairs=int(((data.known >= 0) & ~data.simultaneous).sum()),
        assumptions=tuple(assumptions),
    )


def _centre(tracks: Embeddings) -> tuple[float, ...]:
    """The mean vector, in which each procedure weighs the same; () if there are too few procedures."""
    means = [group.unit.mean(axis=0) for group in procedures(tracks)]
    return tuple(np.mean(means, axis=0).round(6).tolist()) if len(means) >= MIN_CENTRE else ()


@dataclass(frozen=True)
class _Data:
    """The pairs that the fit uses."""

    y: Floats
    gap_s: Floats
    pause_s: Floats
    repeats: Floats  # tracks in the visit of one x tracks in the visit of the other
    known: Floats  # 1 same, 0 different, -1 unknown
    simultaneous: Bools
    across: Floats  # y of pairs across procedures
    total: int


def _collect(
    tracks: Embeddings,
    groups: Sequence[ProcedureTracks],
    labels: bool,
    answers: Sequence[tuple[int, int, bool]],
) -> _Data:
    polyp = polyp_keys(tracks) if labels else np.full(len(tracks), "", object)
    answered = {(min(i, j), max(i, j)): bool(same) for i, j, same in answers}
    total = sum(len(group) * (len(group) - 1) // 2 for group in groups)
    share = min(1.0, MAX_PAIRS / max(total, 1))
    parts: list[tuple[NDArray[Any], ...]] = [(np.empty(0),) * 6]
    for number, group in enumerate(groups):
        i, j = _some_pairs(len(group), share, numpy_generator(0, 0, number))
        cosine, gap, pause, simultaneous = group.pairs(i, j)
        a, b = group.rows[i], group.rows[j]
        same = np.where((polyp[a] != "") & (polyp[b] != ""), polyp[a] == polyp[b], -1).astype(np.float64)
        if answered:
            given = [answered.get((min(p), max(p))) for p in zip(a.tolist(), b.tolist(), strict=True)]
            same = np.array([s if g is None else g for s, g in zip(same, given, strict=True)], np.float64)
        same[simultaneous] = 0.0
        visits = group.visits()
        parts.append((fisher(cosine), gap, pause, visits[i] * visits[j], same, simultaneous))
    y, gap, pause, repeats, known, simultaneous = map(np.concatenate, zip(*parts, strict=True))
    return _Data(y, gap, pause, repeats, known, simultaneous.astype(bool), _across(groups), total)


def _some_pairs(count: int, share: float, generator: np.random.Generator) -> tuple[Ints, Ints]:
    """All pairs i < j of `count` tracks, or a random share of them."""
    if share >= 1.0:
        first, second = np.triu_indices(count, 1)
        return first.astype(np.int64), second.astype(np.int64)
    drawn = generator.integers(count, size=(2, round(share * count * (count - 1) / 2)))
    drawn = drawn[:, drawn[0] != drawn[1]]
    return drawn.min(axis=0), drawn.max(axis=0)


def _across(groups: Sequence[ProcedureTracks]) -> Floats:
    """y of random pairs of tracks of two procedures."""
    if len(groups) < 2:
        return np.empty(0)
    unit = np.concatenate([group.unit for group in groups])
    owner = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    i, j = numpy_generator(0, 1).integers(len(unit), size=(2, MAX_PAIRS))
    i, j = i[owner[i] != owner[j]], j[owner[i] != owner[j]]
    return fisher(np.einsum("nd,nd->n", unit[i], unit[j]))


def _time_prior(parameters: Floats) -> TimePrior:
    """The prior with parameters as in `PAIR_PRIOR`; the ceiling is at least the floor."""
    floor, ceiling = (float(expit(each)) for each in parameters[:2])
    return TimePrior(floor, max(floor, ceiling), float(np.expm1(parameters[2])), float(np.exp(parameters[3])))


def _em(data: _Data, repeats: Floats, assumed: Floats, fixed: Looks | None = None) -> tuple[Looks, TimePrior]:
    """The densities, unless they are fixed, and the prior, in which a pair weighs 1 / repeats."""
    parameters = assumed
    same = np.where(data.known >= 0, data.known, expit(_time_prior(assumed).log_odds(data.pause_s)))
    number, pause_s = _pause_bins(data.pause_s)
    weight = np.where(data.simultaneous, 0.0, 1 / repeats)  # the prior does not apply to simultaneous pairs
    total = np.bincount(number, weight, len(pause_s))
    for _ in range(ITERATIONS):
        looks = fixed or _fit_looks(data, same)
        share = np.bincount(number, weight * same, len(pause_s))
        parameters = _fit_prior(pause_s, total, share, parameters, assumed)
        prior = _time_prior(parameters)
        log_odds = prior.log_odds(data.pause_s) + looks.log_ratio(data.y, data.gap_s)
        updated = np.where(data.known >= 0, data.known, expit(log_odds))
        change = np.abs(updated - same).max(initial=0.0)
        same = updated
        if change < TOLERANCE:
            break
    return looks, prior


def _fit_looks(data: _Data, same: Floats) -> Looks:
    """The means and the width of the densities, given P(same) of each pair."""
    base, spread = ASSUMED_NEGATIVE, ASSUMED_SD
    if len(data.across):
        base, spread = float(data.across.mean()), max(float(data.across.std()), 1e-3)
    weight = 1 / np.sqrt(data.repeats)
    negative, positive = weight * (1 - same), weight * same
    different = float((negative @ data.y + ASSUMED_PAIRS * (base + SHIFT * spread)) / (negative.sum() + ASSUMED_PAIRS))
    if len(data.across):
        different = max(different, base)
    assumed = np.array([1.0, FAR_PAIRS])
    best = (np.inf, HALVES_S[0], ASSUMED_POSITIVE, ASSUMED_POSITIVE)
    for half in HALVES_S:
        close = recent(data.gap_s, half)
        basis = np.stack([close, 1 - close], 1)
        normal = (basis * positive[:, None]).T @ basis + np.diag(assumed)
        near, far = np.linalg.solve(
            normal, basis.T @ (positive * data.y) + assumed * (ASSUMED_POSITIVE, different + FAR * spread)
        )
        near = max(float(near), different)
        far = min(max(float(far), different), near)
        error = float(positive @ (data.y - basis @ (near, far)) ** 2)
        if error < best[0] * (1 - 1e-9):
            best = (error, half, near, far)
    error, half, near, far = best
    total = error + float(negative @ (data.y - different) ** 2) + ASSUMED_PAIRS * spread**2
    sd = math.sqrt(total / (negative.sum() + positive.sum() + ASSUMED_PAIRS))
    return Looks(different, near, far, half, sd)


def _pause_bins(pause_s: Floats, count: int = 60) -> tuple[Ints, Floats]:
    """The bin of each pair, and the pause of each bin. The prior is fitted on bins, because there are fewer of them."""
    scaled = np.log1p(pause_s)
    step = max(float(scaled.max(initial=0.0)) / count, 1e-9)
    return np.minimum((scaled / step).astype(np.int64), count - 1), np.expm1((np.arange(count) + 0.5) * step)


def _fit_prior(pause_s: Floats, total: NDArray[Any], same: NDArray[Any], start: Floats, assumed: Floats) -> Floats:
    """The prior's parameters, given the pause of each bin, its weight, and that of its pairs of one lesion."""
    from scipy.optimize import minimize  # a fifth of the start of `explore`, which seldom fits

    def loss(parameters: Floats) -> float:
        log_odds = _time_prior(parameters).log_odds(pause_s)
        data = same @ log_expit(log_odds) + (total - same) @ log_expit(-log_odds)
        return float(0.5 * (((parameters - assumed) / PRIOR_SD) ** 2).sum() - data)

    return np.asarray(minimize(loss, start, method="L-BFGS-B", bounds=PRIOR_BOUNDS).x)
