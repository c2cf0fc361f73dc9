"""python -m benchmarks lesions VECTORS ... [--out docs/results/lesions]

How well lesions are found without labels, on vectors whose polyps are known: a table beside the published clusterings
(tuned on labels, leaving one procedure out) and beside time alone (a pause tuned in the same way), with 95 % intervals
from a bootstrap over procedures; and a reliability diagram of P(same lesion) beside a logistic regression on the cosine
that is fitted on labels, leaving one procedure out. Each VECTORS folder is fitted on its own.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from polyptrace.core.files import provenance, write_json
from polyptrace.core.randomness import numpy_generator
from polyptrace.data.identity import polyp_keys, video_keys
from polyptrace.drawing import ACCENT, GREY, LINE, Drawing, canvas, finished, styled
from polyptrace.embed import Embeddings
from polyptrace.evaluate import Counting, count
from polyptrace.evaluate.bootstrap import interval
from polyptrace.evaluate.counting import count_lesions
from polyptrace.lesions import fit_same, procedures

Floats = NDArray[np.float64]
Curve = dict[str, Any]
BINS = 10
DRAWS = 1000
PAUSES_S = np.geomspace(1.0, 300.0, 60)
METHODS = ("threshold", "affinity", "temporal")
NAMES = {
    "threshold": "Cosine threshold, tuned",
    "affinity": "Affinity propagation, tuned",
    "temporal": "Temporal affinity propagation, tuned",
    "time": "Time alone, tuned",
    "lesions": "Lesions, without labels",
}


def main(words: list[str]) -> None:
    """Measures, and writes table.md, lesions.json and the reliability diagram."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks lesions", description=__doc__)
    parser.add_argument("vectors", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/results/lesions"))
    options = parser.parse_args(words)
    tables = [Embeddings.load(path).select("track") for path in options.vectors]
    counted = {name: [_count(table, name) for table in tables] for name in NAMES}
    figures = {name: _figures(each) for name, each in counted.items()}
    pairs = [_pairs(table) for table in tables]
    curves = {
        "P(same lesion), without labels": _reliability([(p, t, v) for p, _, t, v in pairs]),
        "logistic regression on the cosine, with labels": _reliability([(c, t, v) for _, c, t, v in pairs]),
    }
    options.out.mkdir(parents=True, exist_ok=True)
    page = _table(figures, [str(path) for path in options.vectors], curves)
    (options.out / "table.md").write_text(page, encoding="utf-8")
    _diagram(curves).save(options.out)
    write_json(options.out / "lesions.json", {"counting": figures, "calibration": curves, "made_by": provenance()})
    print(page)


def _count(tracks: Embeddings, name: str) -> Counting:
    video, polyp = video_keys(tracks), polyp_keys(tracks)
    if name == "lesions":
        return count_lesions(tracks, video, polyp)
    if name == "time":
        return _time_alone(tracks)
    method = next(each for each in METHODS if each == name)
    return count(tracks.vectors, video, polyp, method=method, first=tracks.position, last=tracks.last)


def _time_alone(tracks: Embeddings) -> Counting:
    """A new lesion after every pause of some length, which the other procedures choose by their count error.

    Implemented as the cosine threshold on vectors that are equal within a visit and orthogonal between visits.
    """
    groups, video, polyp = list(procedures(tracks)), video_keys(tracks), polyp_keys(tracks)
    errors = np.zeros((len(groups), len(PAUSES_S)))
    for number, group in enumerate(groups):
        clusters = 1 + (group.pause_s[:, None] > PAUSES_S).sum(axis=0)
        errors[number] = np.abs(clusters - len(set(polyp[group.rows].tolist())))
    visit = np.zeros(len(tracks), np.int64)
    for number, group in enumerate(groups):
        pause = PAUSES_S[int(np.delete(errors, number, axis=0).sum(axis=0).argmin())]
        visit[group.rows] = np.concatenate([[0], np.cumsum(group.pause_s > pause)])
    return count(np.eye(int(visit.max()) + 1)[visit], video, polyp, method="threshold", setting=0.5)


def _figures(counted: list[Counting]) -> dict[str, dict[str, float]]:
    """Each figure over the procedures of all tables, with its interval."""
    errors = np.concatenate([np.abs(each.errors) for each in counted]).astype(np.float64)
    rand = np.concatenate([each.rand for each in counted])
    fragmentation = np.concatenate([each.fragmentations for each in counted])
    pairs = np.concatenate([each.pairs[each.labelled] for each in counted]).astype(np.float64)
    number = len(errors)
    weights = numpy_generator(0).multinomial(number, np.full(number, 1 / number), size=DRAWS).astype(np.float64)
    covered = None
    if all(each.interval is not None for each in counted):
        bounds = np.concatenate([each.interval[each.labelled] for each in counted if each.interval is not None])
        polyps = np.concatenate([each.polyps[each.labelled] for each in counted])
        covered = ((bounds[:, 0] <= polyps) & (polyps <= bounds[:, 1])).astype(np.float64)

    def of(weight: Floats) -> dict[str, Floats]:
        fp, tn, tp, fn = (weight @ pairs).T
        mean = {"count_error": errors, "rand": rand, "fragmentation": fragmentation}
        mean |= {} if covered is None else {"covered": covered}
        ratios = {"pair_f1": 2 * tp / (2 * tp + fp + fn), "false_positive_rate": fp / (fp + tn)}
        return {name: weight @ each / weight.sum(axis=-1) for name, each in mean.items()} | ratios

    value, draws = of(np.ones((1, number))), of(weights)
    result = {}
    for name, each in draws.items():
        low, high = interval(each, number)
        result[name] = {"value": float(value[name][0]), "low": float(low), "high": float(high)}
    return result


def _pairs(tracks: Embeddings) -> tuple[Floats, Floats, Floats, NDArray[np.int64]]:
    """P(same), the logistic regression's probability, the truth and the procedure of all pairs of a table."""
    model, polyp = fit_same(tracks), polyp_keys(tracks)
    probability, cosines, truth, procedure = [], [], [], []
    for number, group in enumerate(procedures(tracks)):
        i, j = np.triu_indices(len(group), 1)
        cosine, gap, pause, simultaneous = group.pairs(i, j)
        probability.append(model.probability(cosine, gap, pause, simultaneous))
        cosines.append(cosine)
        truth.append((polyp[group.rows[i]] == polyp[group.rows[j]]).astype(np.float64))
        procedure.append(np.full(len(i), number))
    same, cosine, known, owner = map(np.concatenate, (probability, cosines, truth, procedure))
    logistic = np.empty(len(cosine))
    for number in np.unique(owner):
        others = owner != number
        fitted = LogisticRegression(C=1e6).fit(cosine[others, None], known[others])
        logistic[~others] = fitted.predict_proba(cosine[~others, None])[:, 1]
    return same, logistic, known, owner


def _reliability(parts: list[tuple[Floats, Floats, NDArray[np.int64]]]) -> Curve:
    """Expected calibration error with its interval, and for each bin: pairs, mean probability, share of same."""
    sums = []  # of each procedure: (3, bins)
    for probability, truth, owner in parts:
        cell = np.minimum((BINS * probability).astype(int), BINS - 1)
        for number in np.unique(owner):
            own = owner == number
            sums.append([np.bincount(cell[own], w, BINS) for w in (np.ones(own.sum()), probability[own], truth[own])])
    each = np.array(sums)  # (procedures, 3, bins)
    weights = numpy_generator(1).multinomial(len(each), np.full(len(each), 1 / len(each)), size=DRAWS)
    drawn = np.einsum("rp,pkb->rkb", weights.astype(np.float64), each)
    error = np.abs(drawn[:, 1] - drawn[:, 2]).sum(axis=1) / drawn[:, 0].sum(axis=1)
    total = each.sum(axis=0)
    low, high = interval(error, len(each))
    filled = np.maximum(total[0], 1)
    return {
        "ece": float(np.abs(total[1] - total[2]).sum() / total[0].sum()),
        "low": float(low),
        "high": float(high),
        "pairs": total[0].tolist(),
        "probability": (total[1] / filled).tolist(),
        "share": (total[2] / filled).tolist(),
    }


def _table(figures: dict[str, dict[str, dict[str, float]]], vectors: list[str], curves: dict[str, Curve]) -> str:
    columns = ("count_error", "pair_f1", "rand", "fragmentation", "false_positive_rate", "covered")
    heads = ("Count error", "Pair F1", "Adjusted Rand", "Fragments per polyp", "False positives", "Covered")
    lines = ["| | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for name, title in NAMES.items():
        cells = []
        for column in columns:
            each = figures[name].get(column)
            cells.append(f"{each['value']:.2f} ({each['low']:.2f}–{each['high']:.2f})" if each else "")
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    lines += ["", "Calibration error of P(same lesion), with 95 % intervals:", ""]
    lines += [f"- {name}: {each['ece']:.3f} ({each['low']:.3f}–{each['high']:.3f})" for name, each in curves.items()]
    return "\n".join([*lines, "", f"Vectors: {len(vectors)} folders."]) + "\n"


@styled
def _diagram(curves: dict[str, Curve]) -> Drawing:
    figure = canvas(4.6, 4.2)
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color=LINE, linewidth=1)
    for (name, each), colour, marker in zip(curves.items(), (ACCENT, GREY), "os", strict=True):
        used = np.array(each["pairs"]) > 0
        x, y = np.array(each["probability"])[used], np.array(each["share"])[used]
        axes.plot(x, y, color=colour, marker=marker, markersize=4, label=f"{name}: error {each['ece']:.3f}")
    axes.set(xlabel="probability", ylabel="share of pairs that show the same polyp", xlim=(0, 1), ylim=(0, 1))
    axes.legend(loc="upper left", fontsize=7)
    return finished(
        figure, "calibration", "Reliability diagram of the probability that two tracks show the same lesion"
    )
