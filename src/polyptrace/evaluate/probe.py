"""Probes: how much of a polyp's size or histology a small network can read off frozen vectors (Section 3).

The probe is LayerNorm, 256 hidden units, GELU, dropout 0.1 and two outputs; 20 epochs of AdamW without weight decay,
batches of 64, one cycle of learning rate and momentum with 10 % warm-up (as torch's `OneCycleLR`), the last epoch's
weights. 70 % of the polyps train it and 30 % test it, stratified by label and dataset, in several repeats with other
splits, first weights and batches. All repeats are trained at once as one stack of parameters.

Macro F1 weighs a tracklet by 1 / (tracklets of its polyp in the test part), so that each polyp counts once; accuracy
counts tracklets. A class that is neither there nor predicted has F1 0. Tracklets without label or polyp are left out.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from polyptrace.core.console import counted
from polyptrace.core.errors import UserError
from polyptrace.data import split_by
from polyptrace.evaluate.probe_training import ProbeStack, draw_batches
from polyptrace.evaluate.significance import nested_draws
from polyptrace.evaluate.similarity import Labels, Vectors, label_codes

TEST_SHARE = 0.3
#: f1: identity-weighted macro F1 (the paper's, for size); accuracy: per tracklet (the paper's, for histology).
FIGURES = ("f1", "accuracy", "f1_plain", "accuracy_weighted")


@dataclass(frozen=True)
class Probe:
    """Probability of class 1 (S repeats, N tracklets), NaN where a tracklet trained or was left out."""

    label: NDArray[np.int64]  # (N,), -1: left out
    polyp: NDArray[np.int64]  # (N,)
    probability: NDArray[np.float32]  # (S, N)

    @property
    def f1(self) -> float:
        """Macro F1 in which each polyp counts once, mean over repeats."""
        return float(self.each("f1").mean())

    @property
    def accuracy(self) -> float:
        """Share of tracklets that are right, mean over repeats."""
        return float(self.each("accuracy").mean())

    def each(self, figure: str) -> NDArray[np.float64]:
        """A figure of `FIGURES` in each repeat (S,)."""
        return _score(figure, self._confusion(figure, np.zeros(len(self.label), dtype=np.int64), 1)[:, 0])

    def draws(
        self, figure: str, cluster: NDArray[np.int64], counts: NDArray[np.int64], seed: int
    ) -> NDArray[np.float64]:
        """The figure on each bootstrap draw (R,): clusters (N,) weighed by counts (R, C), repeats drawn outside."""
        confusion = self._confusion(figure, cluster, counts.shape[1])  # (S, C, 2, 2)
        drawn = np.einsum("rc,scij->srij", counts.astype(np.float64), confusion)
        return nested_draws(_score(figure, drawn), seed)

    def _confusion(self, figure: str, cluster: NDArray[np.int64], clusters: int) -> NDArray[np.float64]:
        """Weight of [truth, prediction] in each repeat and cluster (S, C, 2, 2)."""
        by_polyp = figure in ("f1", "accuracy_weighted")
        confusion = np.zeros((len(self.probability), clusters, 2, 2))
        for repeat, probability in enumerate(self.probability):
            tested = np.flatnonzero(~np.isnan(probability))
            polyp = self.polyp[tested]
            weight = 1.0 / np.bincount(polyp)[polyp] if by_polyp else np.ones(len(tested))
            predicted = (probability[tested] > 0.5).astype(np.int64)
            np.add.at(confusion[repeat], (cluster[tested], self.label[tested], predicted), weight)
        return confusion


def probe(
    vectors: Vectors,
    label: ArrayLike,
    polyp: Labels,
    *,
    by: Labels | None = None,
    dataset: Labels | None = None,
    lr: float = 1e-4,
    repeats: int = 5,
    seed: int = 0,
    epochs: int = 20,
    batch: int = 64,
    hidden: int = 256,
    dropout: float = 0.1,
    device: str | torch.device = "cpu",
) -> Probe:
    """Trains and tests probes on (N, D) vectors with labels 1, 0 or -1 (left out).

    `by` names the groups that the split keeps together (polyps if not given; give videos to split by video).
    """
    values = torch.as_tensor(vectors).detach().to(device=device, dtype=torch.float32)
    count = len(values)
    if not bool(torch.isfinite(values).all()):
        raise UserError(f"vectors: row {int(torch.nonzero(~torch.isfinite(values).all(1))[0])} holds NaN or infinity")
    polyps = label_codes(polyp, count)
    groups = polyps if by is None else label_codes(by, count, "by")
    datasets = np.zeros(count, dtype=np.int64) if dataset is None else label_codes(dataset, count, "dataset")
    labels = np.where((polyps >= 0) & (groups >= 0), np.asarray(label, dtype=np.int64), -1)
    kept = np.flatnonzero(labels >= 0)
    tested = np.zeros((repeats, count), dtype=bool)
    for repeat in range(repeats):
        tested[repeat, kept] = _test_part(groups[kept], labels[kept], datasets[kept], seed + repeat)
    training = [kept[~tested[repeat, kept]] for repeat in range(repeats)]
    stack = ProbeStack(values.shape[1], hidden, dropout, repeats, seed, values.device)
    target = torch.as_tensor(np.maximum(labels, 0), device=device)
    stack.fit(values, target, draw_batches(training, epochs, batch, seed), lr)
    probability = stack.probability(values).cpu().numpy()
    return Probe(labels, polyps, np.where(tested, probability, np.nan).astype(np.float32))


def _test_part(
    group: NDArray[np.int64], label: NDArray[np.int64], dataset: NDArray[np.int64], seed: int
) -> NDArray[np.bool_]:
    """30 % of the groups, both classes on both sides; strata of label alone where datasets are too small."""
    for strata in ((label, dataset), (label,)):
        test = split_by(group, test_share=TEST_SHARE, strata=strata, seed=seed)
        if all(set(label[part].tolist()) == {0, 1} for part in (test, ~test)):
            return test
    found = [len(np.unique(group[label == c])) for c in (0, 1)]
    raise UserError(
        f"probe: {counted(found[1], 'group')} of class 1 and {found[0]} of class 0 are too few to train on and to"
        " test on -> at least 4 of each"
    )


def _score(figure: str, confusion: NDArray[np.float64]) -> NDArray[np.float64]:
    """Macro F1 or accuracy of confusions (..., truth, prediction); NaN where they are empty."""
    right = np.diagonal(confusion, axis1=-2, axis2=-1)  # (..., 2)
    total = confusion.sum(axis=(-1, -2))
    either = confusion.sum(axis=-1) + confusion.sum(axis=-2)  # truth + prediction of each class
    with np.errstate(invalid="ignore"):
        if figure.startswith("accuracy"):
            return np.asarray(right.sum(axis=-1) / total)
        f1 = np.where(either > 0, 2 * right / either, 0.0).mean(axis=-1)
    return np.where(total > 0, f1, np.nan)
