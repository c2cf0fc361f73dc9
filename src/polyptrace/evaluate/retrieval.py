"""Retrieval: each tracklet asks for the others of its polyp (Section 3 of the paper); mAP, HR@1 and HR@5.

A query's gallery is every other labelled tracklet, ranked by cosine. With positives at ranks r_1 < ... < r_m,

    AP = 1/m Σ_i i / r_i        HR@k = 1 if r_1 <= k, else 0        mAP, HR: means over queries.

Ties: AP and hits are the mean over all orders of tied scores. A tie of n scores, p of them positive, below G
scores, g of them positive, adds  p/n Σ_{j=1..n} (g + 1 + (j - 1)(p - 1)/(n - 1)) / (G + j)  to Σ i / r_i.

Only the ranks of the positives matter: a block of queries is sorted once and the positives' scores are searched in
it, so N queries take O(N² (D + log N)) time and O(block x N) memory.

Outcomes that need a decision: a query without a positive is left out and counted; a tracklet without a polyp is
neither query nor gallery; a zero vector has cosine 0 with all; with no query at all the figures are NaN; with a
single polyp every AP is 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from polyptrace.core.errors import UserError
from polyptrace.evaluate.gallery import Limits, Scope, in_seconds
from polyptrace.evaluate.similarity import (
    Labels,
    Vectors,
    full_precision,
    label_codes,
    on_grid,
    row_blocks,
    sort_rows,
    steps_per_unit,
    unit_vectors,
)
from polyptrace.evaluate.tied_ranks import Ranked, expected_precision, hit, rank

Convention = Literal["standard", "release"]
HITS = (1, 5)


@dataclass(frozen=True)
class Retrieval:
    """Per query: its row, average precision, hits (or their probability under ties), nearest rows and scores."""

    query: NDArray[np.int64]  # (Q,)
    ap: NDArray[np.float64]  # (Q,)
    hit1: NDArray[np.float64]  # (Q,)
    hit5: NDArray[np.float64]  # (Q,)
    top: NDArray[np.int64]  # (Q, top), -1 where the gallery has fewer
    top_score: NDArray[np.float32]  # (Q, top)
    without_positive: int
    unlabelled: int
    zero_vectors: int

    @property
    def queries(self) -> int:
        """Queries that have a positive: what the means are over."""
        return len(self.query)

    @property
    def map(self) -> float:
        """Mean average precision, NaN without a query."""
        return _mean(self.ap)

    @property
    def hr1(self) -> float:
        """Share of queries whose nearest tracklet is of their polyp."""
        return _mean(self.hit1)

    @property
    def hr5(self) -> float:
        """Share of queries with their polyp among the nearest five."""
        return _mean(self.hit5)


def retrieval(
    vectors: Vectors,
    polyp: Labels,
    convention: Convention = "standard",
    *,
    scope: Scope = "all",
    video: Labels | None = None,
    start: ArrayLike | None = None,
    end: ArrayLike | None = None,
    apart: float = 0.0,
    top: int = 0,
    device: str | torch.device = "cpu",
) -> Retrieval:
    """Ranks (N, D) vectors by cosine for each of them as query; fractions in [0, 1].

    `convention="release"` drops positives whose cosine is <= 0 from the average precision (a query that loses all of
    them has AP 0), as torchmetrics >= 1.8 does. `scope` limits the gallery: "within" the query's own video, "across"
    (other videos only), "between" (its own polyp, and other polyps of other videos). With `apart` > 0 tracklets of the
    query's video that are closer than so many seconds (gap between `start` and `end`, 0 if they overlap) are left out.
    """
    unit, zero_vectors = unit_vectors(vectors, device)
    count = len(unit)
    polyps = label_codes(polyp, count)
    videos = None if video is None else label_codes(video, count, "video")
    limits = Limits(scope, videos, in_seconds(start, count), in_seconds(end, count), apart)
    limits.check()
    if convention not in ("standard", "release"):
        raise UserError(f"retrieval: convention {convention!r} -> standard or release")
    known = np.flatnonzero(polyps >= 0)
    with full_precision():
        parts = [_among(unit, polyps, rows, limits, convention, top) for rows in _groups(known, limits)]
    whole = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _PER_QUERY}
    order = np.argsort(whole["query"])
    return Retrieval(
        **{name: values[order] for name, values in whole.items()},
        without_positive=sum(part.without_positive for part in parts),
        unlabelled=count - len(known),
        zero_vectors=zero_vectors,
    )


_PER_QUERY = ("query", "ap", "hit1", "hit5", "top", "top_score")


def _groups(known: NDArray[np.int64], limits: Limits) -> list[NDArray[np.int64]]:
    """The rows that are ranked among each other: all, or those of each video."""
    if limits.scope != "within":
        return [known]
    assert limits.video is not None
    by_video = known[np.argsort(limits.video[known], kind="stable")]
    return np.split(by_video, np.flatnonzero(np.diff(limits.video[by_video])) + 1)


def _among(
    unit: Tensor,
    polyps: NDArray[np.int64],
    rows: NDArray[np.int64],
    limits: Limits,
    convention: Convention,
    top: int,
) -> Retrieval:
    """Retrieval among some rows, each a query once and in every other's gallery."""
    rows = rows[np.argsort(polyps[rows], kind="stable")]  # a polyp's tracklets are neighbours
    vectors = unit[torch.as_tensor(rows, device=unit.device)]
    found = [torch.zeros(0)] * 4 + [torch.zeros(0, top, dtype=torch.int64), torch.zeros(0, top)]
    for a, b, figures in _blocks(vectors, polyps[rows], limits.rows(rows), convention, top):
        if a == 0:  # made once: small pieces kept between large ones would hold on to the large ones' memory
            found = [torch.empty((len(rows), *figure.shape[1:]), dtype=figure.dtype) for figure in figures]
        for whole, figure in zip(found, figures, strict=True):
            whole[a:b] = figure
    valid, ap, hit1, hit5, place, score = (whole.numpy() for whole in found)
    kept = valid.astype(bool)
    nearest_rows = np.where(place >= 0, rows[np.maximum(place, 0)] if len(rows) else place, -1)
    return Retrieval(
        query=rows[kept],
        ap=ap[kept].astype(np.float64),
        hit1=hit1[kept].astype(np.float64),
        hit5=hit5[kept].astype(np.float64),
        top=nearest_rows[kept].astype(np.int64),
        top_score=(score[kept] / steps_per_unit(unit.dtype)).astype(np.float32),
        without_positive=int((~kept).sum()),
        unlabelled=0,
        zero_vectors=0,
    )


def _blocks(
    vectors: Tensor, polyps: NDArray[np.int64], limits: Limits, convention: Convention, top: int
) -> Iterator[tuple[int, int, tuple[Tensor, ...]]]:
    """Queries a to b of vectors (N, D) in the order of their polyps: valid, AP, hits at 1 and 5, nearest, scores."""
    device = vectors.device
    code = torch.as_tensor(polyps, device=device)
    _, first, size = np.unique(polyps, return_index=True, return_counts=True)
    run_start = torch.as_tensor(np.repeat(first, size), device=device)
    run_size = torch.as_tensor(np.repeat(size, size), device=device)
    for a, b in row_blocks(len(vectors), len(vectors), device):
        scores = on_grid(vectors[a:b] @ vectors.T)  # (Q, N)
        here = torch.arange(b - a, device=device)
        scores[here, here + a] = -torch.inf
        out = limits.excluded(code, a, b)
        if out is not None:
            scores.masked_fill_(out, -torch.inf)
        nearest = _nearest(scores, top)
        positive = _positive_scores(scores, run_start[a:b], run_size[a:b])  # (Q, m), ascending, then +inf
        ranked = rank(sort_rows(scores), positive)
        yield a, b, (*_figures(ranked, positive, convention), *nearest)


def _nearest(scores: Tensor, top: int) -> tuple[Tensor, Tensor]:
    """Columns and scores (Q, top) of the best; column -1 where the gallery has fewer."""
    found = scores.topk(min(top, scores.shape[1]), dim=1)
    place = torch.where(torch.isinf(found.values), -1, found.indices)
    value = found.values.masked_fill(torch.isinf(found.values), 0.0)
    missing = top - place.shape[1]
    return (
        torch.nn.functional.pad(place, (0, missing), value=-1),
        torch.nn.functional.pad(value, (0, missing), value=0.0),
    )


def _positive_scores(scores: Tensor, run_start: Tensor, run_size: Tensor) -> Tensor:
    """Scores (Q, m) of each query's positives in its gallery, ascending, the rest filled with +inf."""
    offset = torch.arange(int(run_size.max()), device=scores.device)
    column = (run_start[:, None] + offset).clamp_(max=scores.shape[1] - 1)
    positive = scores.gather(1, column)
    positive.masked_fill_((offset >= run_size[:, None]) | torch.isinf(positive), torch.inf)
    return positive.sort(dim=1).values


def _figures(ranked: Ranked, positive: Tensor, convention: Convention) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(has a positive, AP, hit at 1, hit at 5), each (Q,)."""
    has = ranked.valid.any(dim=1)
    counted = ranked.valid & (positive > 0) if convention == "release" else ranked.valid
    term = torch.where(counted, expected_precision(ranked), 0.0)
    ap = term.sum(dim=1) / counted.sum(dim=1).clamp(min=1)
    best = (ranked.valid.sum(dim=1, keepdim=True) - 1).clamp(min=0)  # column of the best positive
    above, equal, positives = (t.gather(1, best)[:, 0] for t in (ranked.above, ranked.equal, ranked.positive_equal))
    hit1, hit5 = (hit(above, equal, positives, k) for k in HITS)
    return has, ap, hit1, hit5


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else float("nan")
