"""Retrieval: each tracklet is a query for the other tracklets of its polyp (Section 3); mAP, HR@1 and HR@5.

The gallery of a query is every other labelled tracklet, ranked by cosine. With positives at ranks r_1 < ... < r_m,

    AP = 1/m Σ_i i / r_i        HR@k = 1 if r_1 <= k, else 0        mAP, HR: means over queries.

Ties: AP and hits are means over all orders of tied scores. A tie of n scores, p of them positive, below G scores, g
of them positive, contributes  p/n Σ_{j=1..n} (g + 1 + (j - 1)(p - 1)/(n - 1)) / (G + j)  to Σ i / r_i.

Only the ranks of the positives matter. A block of queries is sorted once and the scores of the positives are searched
in it, so N queries take O(N² (D + log N)) time and O(block x N) memory.

Edge cases: a query without a positive is left out and counted; a tracklet without a polyp is neither query nor
gallery; a zero vector has cosine 0 with every vector; without any query the metrics are NaN; with a single polyp every
AP is 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn.functional import pad

from polyptrace.core.arrays import Float32s, Floats, Ints
from polyptrace.core.errors import UserError
from polyptrace.evaluate.similarity import Labels, Vectors, label_codes, score_blocks, steps_per_unit, unit_rows

Convention = Literal["standard", "release"]
Scope = Literal["all", "within", "across", "between"]


@dataclass(frozen=True)
class Retrieval:
    """Per query: its row, average precision, hits (or their probability under ties), nearest rows and scores."""

    query: Ints  # (Q,)
    ap: Floats  # (Q,)
    hit1: Floats  # (Q,)
    hit5: Floats  # (Q,)
    top: Ints  # (Q, top), -1 where the gallery has fewer
    top_score: Float32s  # (Q, top)
    without_positive: int
    unlabelled: int
    zero_vectors: int

    @property
    def queries(self) -> int:
        """Number of queries that have a positive."""
        return len(self.query)

    @property
    def map(self) -> float:
        """Mean average precision; NaN without a query."""
        return _mean(self.ap)

    @property
    def hr1(self) -> float:
        """Share of queries whose nearest tracklet shows their polyp."""
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
    """Ranks (N, D) vectors by cosine, with each of them as the query; metrics are fractions in [0, 1].

    `convention="release"` drops positives with a cosine <= 0 from the average precision (a query that loses all of
    them has AP 0), as torchmetrics >= 1.8 does. `scope` restricts the gallery: "within" is the video of the query,
    "across" the other videos, "between" its own polyp and the polyps of other videos. `apart` > 0 removes tracklets
    of the query's video that are less than this many seconds away (the gap from `start` to `end`; 0 if they overlap).
    """
    unit, zero_vectors = unit_rows(vectors, device)
    count = len(unit)
    polyps = label_codes(polyp, count)
    videos = None if video is None else label_codes(video, count, "video")
    times = None if start is None or end is None else np.stack([_seconds(start, count), _seconds(end, count)])
    if convention not in get_args(Convention):
        raise UserError(f"retrieval: convention {convention!r} is unknown -> use {' or '.join(get_args(Convention))}")
    rows = np.flatnonzero(polyps >= 0)
    rows = rows[np.argsort(polyps[rows], kind="stable")]  # the tracklets of a polyp become neighbours
    gallery = Gallery(
        scope,
        apart,
        torch.as_tensor(polyps[rows], device=unit.device),
        None if videos is None else torch.as_tensor(videos[rows], device=unit.device),
        None if times is None else torch.as_tensor(times[:, rows], device=unit.device),
    )
    none = (torch.zeros(0, dtype=torch.bool), *[torch.zeros(0, dtype=torch.float64)] * 3)
    none = (*none, torch.zeros(0, top, dtype=torch.int64), torch.zeros(0, top))
    blocks = list(_blocks(unit[torch.as_tensor(rows, device=unit.device)], gallery, convention, top))
    columns = (torch.cat([each.cpu() for each in column]).numpy() for column in zip(none, *blocks, strict=True))
    has_positive, ap, hit1, hit5, nearest, score = columns
    kept = np.flatnonzero(has_positive)
    kept = kept[np.argsort(rows[kept])]
    return Retrieval(
        query=rows[kept],
        ap=ap[kept],
        hit1=hit1[kept],
        hit5=hit5[kept],
        top=np.where(nearest >= 0, rows[np.maximum(nearest, 0)], -1)[kept],
        top_score=(score[kept] / steps_per_unit(unit.dtype)).astype(np.float32),
        without_positive=len(rows) - len(kept),
        unlabelled=count - len(rows),
        zero_vectors=zero_vectors,
    )


@dataclass(frozen=True)
class Gallery:
    """Which of the labelled tracklets (N,), sorted by polyp, are in the gallery of a query."""

    scope: Scope
    apart: float
    polyp: Tensor
    video: Tensor | None
    times: Tensor | None  # (2, N): start and end in seconds

    def __post_init__(self) -> None:
        if self.scope not in get_args(Scope):
            raise UserError(f"retrieval: scope {self.scope!r} is unknown -> use {', '.join(get_args(Scope))}")
        if (self.scope != "all" or self.apart > 0) and self.video is None:
            raise UserError(f"retrieval: scope {self.scope!r} or apart needs videos -> give the video of each tracklet")
        if self.apart > 0 and self.times is None:
            raise UserError(f"retrieval: apart {self.apart:g} s: no times -> give start and end of each tracklet")

    def excluded(self, first: int, last: int) -> Tensor:
        """True (Q, N) where a tracklet is not in the gallery of queries first..last, such as the query itself."""
        number = torch.arange(len(self.polyp), device=self.polyp.device)
        excluded = number == number[first:last, None]
        if self.video is None or (self.scope == "all" and not self.apart):
            return excluded
        same = self.video[first:last, None] == self.video  # (Q, N)
        match self.scope:
            case "within":
                excluded |= ~same
            case "across":
                excluded |= same
            case "between":
                excluded |= same & (self.polyp[first:last, None] != self.polyp)
        if self.apart > 0 and self.times is not None:
            start, end = self.times
            gap = torch.maximum(start - end[first:last, None], start[first:last, None] - end)
            excluded |= same & (gap.clamp_(min=0) < self.apart)
        return excluded


def _seconds(values: ArrayLike, count: int) -> Floats:
    seconds = np.asarray(values, dtype=np.float64)
    if seconds.shape != (count,) or np.isnan(seconds).any():
        raise UserError("retrieval: start and end are incomplete -> give a time in seconds for each tracklet")
    return seconds


def _blocks(vectors: Tensor, gallery: Gallery, convention: Convention, top: int) -> Iterator[tuple[Tensor, ...]]:
    """Per block of queries: has a positive, AP, hits at 1 and 5, nearest columns and scores; vectors (N, D)."""
    size = torch.unique_consecutive(gallery.polyp, return_counts=True)[1]
    run_start, run_size = (size.cumsum(0) - size).repeat_interleave(size), size.repeat_interleave(size)
    for a, b, scores in score_blocks(vectors):
        scores.masked_fill_(gallery.excluded(a, b), -torch.inf)
        nearest = _nearest(scores, top)
        positive = _positive_scores(scores, run_start[a:b], run_size[a:b])  # (Q, m), ascending, then +inf
        yield (*_metrics(_sorted(scores), positive, convention), *nearest)


def _sorted(scores: Tensor) -> Tensor:
    """Each row in ascending order. On the CPU with NumPy, whose vectorised sort is ten times faster."""
    if scores.device.type != "cpu":
        return torch.sort(scores, dim=1).values
    return torch.from_numpy(np.sort(scores.numpy(), axis=1))


def _nearest(scores: Tensor, top: int) -> tuple[Tensor, Tensor]:
    """Columns and scores (Q, top) of the nearest; column -1 where the gallery has fewer."""
    best = scores.topk(min(top, scores.shape[1]), dim=1)
    excluded, missing = torch.isinf(best.values), (0, top - best.values.shape[1])
    column = pad(best.indices.masked_fill(excluded, -1), missing, value=-1)
    return column, pad(best.values.masked_fill(excluded, 0.0), missing)


def _positive_scores(scores: Tensor, run_start: Tensor, run_size: Tensor) -> Tensor:
    """Scores (Q, m) of each query's positives in its gallery, ascending, padded with +inf."""
    offset = torch.arange(int(run_size.max()), device=scores.device)
    column = (run_start[:, None] + offset).clamp_(max=scores.shape[1] - 1)
    positive = scores.gather(1, column)
    positive.masked_fill_((offset >= run_size[:, None]) | torch.isinf(positive), torch.inf)
    return positive.sort(dim=1).values


def _metrics(ordered: Tensor, positive: Tensor, convention: Convention) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(has a positive, AP, hit at 1, hit at 5), each (Q,), from all scores (Q, N) and those of the positives (Q, m).

    Both are ascending; the positives are padded with +inf.
    """
    valid = ~torch.isinf(positive)
    above, equal = _above_and_equal(ordered, positive)
    positive_above, positive_equal = _above_and_equal(positive, positive)
    positive_above = positive_above - (~valid).sum(dim=1, keepdim=True)
    counted = valid & (positive > 0) if convention == "release" else valid
    precision = torch.where(counted, _expected_precision(above, equal, positive_above, positive_equal), 0.0)
    ap = precision.sum(dim=1) / counted.sum(dim=1).clamp(min=1)
    best = (valid.sum(dim=1, keepdim=True) - 1).clamp(min=0)  # column of the best positive
    of_best = [each.gather(1, best)[:, 0] for each in (above, equal, positive_equal)]
    return valid.any(dim=1), ap, _hit(1, *of_best), _hit(5, *of_best)


def _above_and_equal(ordered: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """How many of the ordered scores (Q, N) are above and equal to each of the scores (Q, m)."""
    upper = torch.searchsorted(ordered, scores, right=True)
    return ordered.shape[1] - upper, upper - torch.searchsorted(ordered, scores)


def _expected_precision(above: Tensor, equal: Tensor, positive_above: Tensor, positive_equal: Tensor) -> Tensor:
    """Precision at a positive's rank, averaged over tie orders; the same for all positives of a tie.

    With b = (p - 1)/(n - 1):  1/n Σ_j (g + 1 + (j - 1) b)/(G + j) = b + (g + 1 - b - b G)(H(G + n) - H(G))/n.
    """
    above, equal = above.double(), equal.clamp(min=1).double()
    share = (positive_equal - 1).double() / (equal - 1).clamp(min=1)
    harmonic = torch.special.digamma(above + equal + 1) - torch.special.digamma(above + 1)
    tied = share + (positive_above + 1 - share - share * above) * harmonic / equal
    return torch.where(equal > 1, tied, (positive_above + 1) / (above + 1))


def _hit(k: int, above: Tensor, equal: Tensor, positives: Tensor) -> Tensor:
    """Probability over tie orders (Q,) that the best positive, which ties with `equal` scores, has a rank <= k."""
    remaining = (k - above).clamp(min=0)
    miss = torch.ones_like(above, dtype=torch.float64)
    for taken in range(k):
        others = (equal - positives - taken).clamp(min=0).double() / (equal - taken).clamp(min=1)
        miss = torch.where(taken < remaining, miss * others, miss)
    return 1.0 - miss


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else float("nan")
