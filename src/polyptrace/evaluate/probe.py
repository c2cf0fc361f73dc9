"""Probes: how well a small network predicts a polyp's size or histology from frozen vectors (Section 3).

The probe is LayerNorm, Linear(256), GELU, dropout 0.1 and Linear(2). It trains for 20 epochs with AdamW without weight
decay, batches of 64 and torch's `OneCycleLR` with 10 % warm-up; the weights of the last epoch are used. 70 % of the
polyps train it and 30 % test it, stratified by label and dataset. Each repeat has another split, initialisation and
order of batches. A published split can be given instead; the repeats then share it.

Macro F1 weights a tracklet by 1 / (tracklets of its polyp in the test part), so each polyp counts once; accuracy
counts tracklets. A class that neither occurs nor is predicted has F1 0. Tracklets without a label or a polyp are left
out. Size is 1 above 5.0 mm; histology is 1 for adenomas, by the names that the public datasets use.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock

import numpy as np
import torch
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from torch import Tensor, nn

from polyptrace.core.arrays import Bools, Float32s, Floats, Ints
from polyptrace.core.device import torch_threads
from polyptrace.core.errors import UserError
from polyptrace.core.randomness import torch_seed
from polyptrace.data.sources.box_labels import HISTOLOGY
from polyptrace.data.splits import split_by
from polyptrace.evaluate.bootstrap import nested_draws
from polyptrace.evaluate.similarity import Labels, Vectors, finite_rows, label_codes

TEST_SHARE = 0.3
WARM_UP = 0.1
BATCH, HIDDEN = 64, 256
DIMINUTIVE_MM = 5.0
#: f1: macro F1 with equal weight per polyp (the paper's metric of size); accuracy: per tracklet (of histology).
METRICS = ("f1", "accuracy", "f1_plain", "accuracy_weighted")
#: Layers take their initial weights from torch's global generator, which threads share.
_GLOBAL_GENERATOR = Lock()


@dataclass(frozen=True)
class Probe:
    """Probability of class 1 (S repeats, N tracklets); NaN where a tracklet was used for training or left out."""

    label: Ints  # (N,), -1: left out
    polyp: Ints  # (N,)
    probability: Float32s  # (S, N)

    @property
    def f1(self) -> float:
        """Macro F1 with equal weight per polyp, mean over repeats."""
        return float(self.each("f1").mean())

    @property
    def accuracy(self) -> float:
        """Share of correct tracklets, mean over repeats."""
        return float(self.each("accuracy").mean())

    def each(self, metric: str) -> Floats:
        """A metric of `METRICS` in each repeat (S,)."""
        return _score(metric, self._confusion(metric, np.zeros(len(self.label), dtype=np.int64), 1)[:, 0])

    def draws(self, metric: str, cluster: Ints, counts: Ints, seed: int) -> Floats:
        """The metric on each bootstrap draw (R,): clusters (N,) weighted by counts (R, C), repeats resampled."""
        confusion = self._confusion(metric, cluster, counts.shape[1])  # (S, C, 2, 2)
        drawn = np.einsum("rc,scij->srij", counts.astype(np.float64), confusion)
        return nested_draws(_score(metric, drawn), seed)

    def _confusion(self, metric: str, cluster: Ints, clusters: int) -> Floats:
        """Weight of [truth, prediction] in each repeat and cluster (S, C, 2, 2)."""
        by_polyp = metric in ("f1", "accuracy_weighted")
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
    test: ArrayLike | None = None,
    lr: float = 1e-4,
    repeats: int = 5,
    seed: int = 0,
    epochs: int = 20,
    dropout: float = 0.1,
    device: str | torch.device = "cpu",
) -> Probe:
    """Trains and tests probes on (N, D) vectors with labels 1, 0 or -1 (left out).

    `by` gives the groups that the split keeps together (default: polyps; give videos to split by video). `test` is a
    mask (N,) of the tracklets that test, for a published split; all others train, and `by` has no effect.
    """
    values = finite_rows(vectors, device, torch.float32)
    count = len(values)
    polyps = label_codes(polyp, count)
    groups = polyps if by is None else label_codes(by, count, "by")
    datasets = np.zeros(count, dtype=np.int64) if dataset is None else label_codes(dataset, count, "dataset")
    labels = np.where((polyps >= 0) & (groups >= 0), np.asarray(label, dtype=np.int64), -1)
    kept = np.flatnonzero(labels >= 0)
    target = torch.as_tensor(np.maximum(labels, 0), device=values.device)
    if test is None:
        splits = [_test_part(groups[kept], labels[kept], datasets[kept], seed + repeat) for repeat in range(repeats)]
    else:
        splits = [np.asarray(test, dtype=bool)[kept]] * repeats
        if not _both_classes(splits[0], labels[kept]):
            raise UserError("probe: the given split lacks a class in its training or test part -> check both")
    probability = np.full((repeats, count), np.nan, dtype=np.float32)

    def train_and_test(repeat: int) -> None:
        train_rows, test_rows = kept[~splits[repeat]], kept[splits[repeat]]
        rows = torch.as_tensor(train_rows, device=values.device)
        network = train_probe(values, target, rows, lr, epochs, dropout, torch_seed(seed, repeat))
        with torch.inference_mode():
            logits = network(values[torch.as_tensor(test_rows, device=values.device)])
        probability[repeat, test_rows] = logits.softmax(1)[:, 1].cpu().numpy()

    # The steps are too small to be shared by threads, so each thread trains a probe of its own.
    parallel = Parallel(torch.get_num_threads(), backend="threading")
    with torch_threads(1):
        parallel(delayed(train_and_test)(repeat) for repeat in range(repeats))
    return Probe(labels, polyps, probability)


def train_probe(
    values: Tensor, target: Tensor, rows: Tensor, lr: float, epochs: int, dropout: float, seed: int
) -> nn.Module:
    """A probe in evaluation mode, trained on some rows of values (N, D) and classes (N,)."""
    width, steps = values.shape[1], epochs * -(-len(rows) // BATCH)
    with _GLOBAL_GENERATOR, torch.random.fork_rng([]):
        torch.manual_seed(seed)
        hidden = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, HIDDEN), nn.GELU()).to(values.device)
        output = nn.Linear(HIDDEN, 2).to(values.device)
        order = torch.Generator().set_state(torch.get_rng_state())
    dropped = torch.Generator(values.device).manual_seed(seed) if values.is_cuda else order
    network = nn.Sequential(hidden, output)
    optimiser = torch.optim.AdamW(network.parameters(), lr=lr, weight_decay=0.0, fused=True)
    steps = max(steps, 11)  # torch divides by zero if the warm-up is exactly one step
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=lr, total_steps=steps, pct_start=WARM_UP)
    for _ in range(epochs):
        shuffled = rows[torch.randperm(len(rows), generator=order).to(rows.device)]
        for part in shuffled.split(BATCH):
            activation = hidden(values[part])  # (B, HIDDEN)
            if dropout:  # nn.Dropout has no generator of its own
                activation = activation * torch.empty_like(activation).bernoulli_(1 - dropout, generator=dropped)
                activation = activation / (1 - dropout)
            optimiser.zero_grad()
            nn.functional.cross_entropy(output(activation), target[part]).backward()
            optimiser.step()
            schedule.step()
    return network.eval()


def adenoma(histology: ArrayLike, more: Mapping[str, int] | None = None) -> Ints:
    """1 adenoma, 0 not, -1 left out or unknown (""), for the names of the known datasets and of `more`."""
    table = {_normalised(name): label for name, label in {**HISTOLOGY, **(more or {})}.items()} | {"": -1}
    names, index = np.unique(np.asarray(histology, dtype=str), return_inverse=True)
    unknown = [name for name in names.tolist() if _normalised(name) not in table]
    if unknown:
        raise UserError(
            f"histology: unknown name {', '.join(map(repr, unknown))} -> known names are {', '.join(HISTOLOGY)};"
            " map others with --histology NAME=1 (adenoma), 0 (not) or -1 (left out)"
        )
    return np.array([table[_normalised(name)] for name in names.tolist()], dtype=np.int64)[index.reshape(-1)]


def larger(size_mm: ArrayLike) -> Ints:
    """1 above 5.0 mm, 0 up to it, -1 where the size is unknown (NaN)."""
    size = np.asarray(size_mm, dtype=np.float64)
    return np.where(np.isnan(size), -1, (size > DIMINUTIVE_MM).astype(np.int64))


def _normalised(name: str) -> str:
    return " ".join(name.casefold().split())


def _test_part(group: Ints, label: Ints, dataset: Ints, seed: int) -> Bools:
    """Mask of 30 % of the groups, with both classes on both sides; stratified by label only if datasets are small."""
    for strata in ((label, dataset), (label,)):
        test = split_by(group, test_share=TEST_SHARE, strata=strata, seed=seed)
        if _both_classes(test, label):
            return test
    groups = [len(np.unique(group[label == c])) for c in (0, 1)]
    raise UserError(f"probe: too few groups (class 1: {groups[1]}, class 0: {groups[0]}) -> give at least 4 of each")


def _both_classes(test: Bools, label: Ints) -> bool:
    return all(set(label[part].tolist()) == {0, 1} for part in (test, ~test))


def _score(metric: str, confusion: Floats) -> Floats:
    """Macro F1 or accuracy of confusions (..., truth, prediction); NaN where they are empty."""
    right = np.diagonal(confusion, axis1=-2, axis2=-1)  # (..., 2)
    total = confusion.sum(axis=(-1, -2))
    either = confusion.sum(axis=-1) + confusion.sum(axis=-2)  # truth + prediction of each class
    with np.errstate(invalid="ignore"):
        if metric.startswith("accuracy"):
            return np.asarray(right.sum(axis=-1) / total)
        f1 = np.where(either > 0, 2 * right / either, 0.0).mean(axis=-1)
    return np.where(total > 0, f1, np.nan)
