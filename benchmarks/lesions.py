"""python -m benchmarks lesions VECTORS ... [--data DATASET ...] [--title TEXT] --out FOLDER

How well lesions are found without labels, on vectors whose polyps are known. Each VECTORS folder is fitted on its own.
Writes table.md, lesions.json and the reliability diagram.

- Counting, compared with the published clusterings and with time alone (a new lesion after each pause of some length).
  These are tuned on the labels of the other procedures of their folder: the clusterings to a false positive rate of
  5 %, as published, time alone to its count error. "Tuned for it": the count error of the setting with the smallest
  count error on the other procedures.
- Calibration of P(same lesion) of pairs of tracks, of the probability after clustering, and of a logistic regression on
  the cosine that is fitted on the labels of the other procedures.

Intervals: 95 %, from a bootstrap over procedures. --data checks that the vectors belong to the datasets and records how
these were made.
"""

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks import command_line
from benchmarks.result import Cells, markdown_table
from polyptrace.core.arrays import Floats, Ints
from polyptrace.core.console import counted, progress
from polyptrace.core.files import provenance, read_json, write_json
from polyptrace.core.randomness import numpy_generator
from polyptrace.data.identity import polyp_keys, video_keys
from polyptrace.drawing import ACCENT, GREY, LINE, RIGHT, Drawing, canvas, finished, styled
from polyptrace.embed import Embeddings
from polyptrace.evaluate import Counting, count
from polyptrace.evaluate.bootstrap import interval
from polyptrace.evaluate.counting import SETTINGS, Clustering, count_lesions
from polyptrace.lesions import fit_same, pair_scores, partition, procedures

ReliabilityCurve = dict[str, Any]
Figures = dict[str, dict[str, float]]
BINS = 10
DRAWS = 1000
PAUSES_S = np.geomspace(1.0, 300.0, 60)
CLUSTERINGS: dict[Clustering, str] = {
    "threshold": "Cosine threshold, tuned",
    "affinity": "Affinity propagation, tuned",
    "temporal": "Temporal affinity propagation, tuned",
}
TIME, OURS = "Time alone, tuned", "Lesions, without labels"
COLUMNS = {
    "count_error": "Count error",
    "tuned_count_error": "Tuned for it",
    "pair_f1": "Pair F1",
    "rand": "Adjusted Rand",
    "fragmentation": "Fragments per polyp",
    "false_positive_rate": "False positives",
    "covered": "90 % interval covers",
    "width": "Its width",
}


def main(words: list[str]) -> None:
    """Measures, and writes table.md, lesions.json and the reliability diagram."""
    parser = command_line.parser("lesions", __doc__)
    parser.add_argument("vectors", nargs="+", type=Path)
    parser.add_argument("--data", type=Path, nargs="+", default=[], help="dataset of each VECTORS folder")
    parser.add_argument("--title", default="", help="what the vectors are, for the table and the figure")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(words)
    if options.data and len(options.data) != len(options.vectors):
        parser.error(f"{len(options.vectors)} VECTORS and {len(options.data)} --data: give one dataset for each")
    tables = [Embeddings.load(path).select("track") for path in options.vectors]
    datasets = [read_json(path / "dataset.json") for path in options.data]
    for path, dataset, table in zip(options.data, datasets, tables, strict=False):
        if dataset["hashes"] != table.info.get("dataset", {}).get("hashes"):
            parser.error(f"{path}: the vectors were not computed from this dataset")
    figures, curves = counting(tables), calibration(tables)
    options.out.mkdir(parents=True, exist_ok=True)
    page = _page(options.title, tables, figures, curves)
    (options.out / "table.md").write_text(page, encoding="utf-8")
    _diagram(options.title, curves).save(options.out)
    made = {path.name: data.get("settings") for path, data in zip(options.vectors, datasets, strict=False)}
    content = {"title": options.title, "counting": figures, "calibration": curves, "datasets": made}
    write_json(options.out / "lesions.json", content | {"made_by": provenance()})
    print(page)


def counting(tables: list[Embeddings]) -> dict[str, Figures]:
    """The figures of each way to count, over the procedures of all tables."""
    results: dict[str, list[Counting]] = {name: [] for name in (*CLUSTERINGS.values(), TIME, OURS)}
    tuned: dict[str, list[Floats]] = {name: [] for name in CLUSTERINGS.values()}
    with progress("counting", len(tables), "tables") as bar:
        for tracks in tables:
            video, polyp = video_keys(tracks), polyp_keys(tracks)
            for method, name in CLUSTERINGS.items():
                times: dict[str, Any] = {"method": method, "first": tracks.position, "last": tracks.last}
                results[name].append(count(tracks.vectors, video, polyp, **times))
                each = [count(tracks.vectors, video, polyp, **times, setting=s).errors for s in SETTINGS[method]]
                tuned[name].append(_tuned(np.abs(np.stack(each, axis=1))))
            results[TIME].append(_time_alone(tracks))
            results[OURS].append(count_lesions(tracks, video, polyp))
            bar.advance()
    return {name: _figures(each, tuned.get(name)) for name, each in results.items()}


def _tuned(errors: Ints) -> Floats:
    """Of errors (V, S), that of each video with the setting that is best for the other videos."""
    others = errors.sum(axis=0) - errors
    return np.take_along_axis(errors, others.argmin(axis=1)[:, None], axis=1)[:, 0].astype(np.float64)


def _time_alone(tracks: Embeddings) -> Counting:
    """A new lesion after every pause of some length, which the other procedures choose by their count error.

    Implemented as the cosine threshold on vectors that are equal within a visit and orthogonal between visits.
    """
    groups, polyp = list(procedures(tracks)), polyp_keys(tracks)
    errors = np.zeros((len(groups), len(PAUSES_S)))
    for number, group in enumerate(groups):
        clusters = 1 + (group.pause_s[:, None] > PAUSES_S).sum(axis=0)
        errors[number] = np.abs(clusters - len(set(polyp[group.rows].tolist())))
    visit = np.zeros(len(tracks), np.int64)
    for group, others in zip(groups, errors.sum(axis=0) - errors, strict=True):
        visit[group.rows] = np.concatenate([[0], np.cumsum(group.pause_s > PAUSES_S[int(others.argmin())])])
    vectors = np.eye(int(visit.max()) + 1)[visit]
    return count(vectors, video_keys(tracks), polyp, method="threshold", setting=0.5)


def _figures(results: list[Counting], tuned: list[Floats] | None) -> Figures:
    """Each figure over the procedures of all tables, with its interval."""
    errors = np.concatenate([np.abs(each.errors) for each in results]).astype(np.float64)
    means = {
        "count_error": errors,
        "rand": np.concatenate([each.rand for each in results]),
        "fragmentation": np.concatenate([each.fragmentations for each in results]),
    }
    if tuned is not None:
        means["tuned_count_error"] = np.concatenate(tuned)
    bounds = [each.interval[each.labelled] for each in results if each.interval is not None]
    if bounds:
        low, high = np.concatenate(bounds).T
        polyps = np.concatenate([each.polyps[each.labelled] for each in results])
        means |= {"covered": ((low <= polyps) & (polyps <= high)).astype(np.float64), "width": high - low + 1.0}
    pairs = np.concatenate([each.pairs[each.labelled] for each in results]).astype(np.float64)

    def of(weight: Floats) -> dict[str, Floats]:
        fp, tn, tp, fn = (weight @ pairs).T
        ratios = {"pair_f1": 2 * tp / (2 * tp + fp + fn), "false_positive_rate": fp / (fp + tn)}
        return {name: weight @ each / weight.sum(axis=-1) for name, each in means.items()} | ratios

    value, draws = of(np.ones((1, len(errors)))), of(_draws(len(errors)))
    return {name: _with_interval(float(value[name][0]), each, len(errors)) for name, each in draws.items()}


def calibration(tables: list[Embeddings]) -> dict[str, ReliabilityCurve]:
    """The reliability of each probability, over the pairs of tracks of all procedures."""
    parts = [_pairs(table) for table in tables]
    names = (
        "P(same lesion), without labels",
        "after clustering, without labels",
        "logistic on the cosine, with labels",
    )
    return {
        name: _reliability([(each[column], each[3], each[4]) for each in parts]) for column, name in enumerate(names)
    }


def _pairs(tracks: Embeddings) -> tuple[Floats, Floats, Floats, Floats, Ints]:
    """Of all pairs of a table: P(same), that after clustering, the logistic's, the truth, and the procedure."""
    model, polyp = fit_same(tracks), polyp_keys(tracks)
    columns: list[list[Floats]] = [[] for _ in range(5)]
    for number, group in enumerate(procedures(tracks, model.centre)):
        i, j = np.triu_indices(len(group), 1)
        cosine, gap, pause, simultaneous = group.pairs(i, j)
        solved = partition(pair_scores(group, model))
        together = solved.together[solved.group[i], solved.group[j]]
        same = polyp[group.rows[i]] == polyp[group.rows[j]]
        values = (model.probability(cosine, gap, pause, simultaneous), together, cosine, same, np.full(len(i), number))
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    before, after, cosine, truth, owner = map(np.concatenate, columns)
    logistic = np.empty(len(cosine))
    for number in np.unique(owner):
        others = owner != number
        fitted = LogisticRegression(C=1e6).fit(cosine[others, None], truth[others])
        logistic[~others] = fitted.predict_proba(cosine[~others, None])[:, 1]
    return before, after, logistic, truth, owner


def _reliability(parts: list[tuple[Floats, Floats, Ints]]) -> ReliabilityCurve:
    """Calibration error and Brier score with intervals; for each bin: pairs, mean probability, share of same."""
    sums = []  # of each procedure: (4, bins)
    for probability, truth, owner in parts:
        cell = np.minimum((BINS * probability).astype(int), BINS - 1)
        columns = (np.ones(len(truth)), probability, truth, (probability - truth) ** 2)
        for number in np.unique(owner):
            own = owner == number
            sums.append([np.bincount(cell[own], column[own], BINS) for column in columns])
    each = np.array(sums)

    def of(total: Floats) -> tuple[Floats, Floats]:
        pairs, probability, truth, brier = np.moveaxis(total, -2, 0)
        return np.abs(probability - truth).sum(-1) / pairs.sum(-1), brier.sum(-1) / pairs.sum(-1)

    total = each.sum(axis=0)
    drawn = of(np.einsum("rp,pkb->rkb", _draws(len(each)), each))
    (ece, brier), filled = of(total), np.maximum(total[0], 1)
    return {
        "ece": _with_interval(float(ece), drawn[0], len(each)),
        "brier": _with_interval(float(brier), drawn[1], len(each)),
        "pairs": total[0].tolist(),
        "probability": (total[1] / filled).tolist(),
        "share": (total[2] / filled).tolist(),
    }


def _draws(number: int) -> Floats:
    """How often each procedure is taken in each draw."""
    return numpy_generator(0).multinomial(number, np.full(number, 1 / number), size=DRAWS).astype(np.float64)


def _with_interval(value: float, draws: Floats, number: int) -> dict[str, float]:
    low, high = interval(draws, number)
    return {"value": value, "low": low, "high": high}


def _page(
    title: str, tables: list[Embeddings], figures: dict[str, Figures], curves: dict[str, ReliabilityCurve]
) -> str:
    procedures_ = sum(len(set(video_keys(table))) for table in tables)
    polyps = sum(len(set(polyp_keys(table))) for table in tables)
    size = f"{counted(procedures_, 'procedure')}, {counted(polyps, 'polyp')}, {sum(map(len, tables)):,} tracks"
    heading = ": ".join(filter(None, (title, size))) + "."
    counts: list[Cells] = [("", *COLUMNS.values())]
    counts += [(name, *(_cell(each.get(column), 2) for column in COLUMNS)) for name, each in figures.items()]
    errors: list[Cells] = [("probability", "calibration error", "Brier score")]
    errors += [(name, _cell(curve["ece"], 3), _cell(curve["brier"], 3)) for name, curve in curves.items()]
    return "\n\n".join([heading, markdown_table(counts), markdown_table(errors)]) + "\n"


def _cell(figure: dict[str, float] | None, digits: int) -> str:
    if figure is None:
        return ""
    return f"{figure['value']:.{digits}f} ({figure['low']:.{digits}f}–{figure['high']:.{digits}f})"


@styled
def _diagram(title: str, curves: dict[str, ReliabilityCurve]) -> Drawing:
    figure = canvas(4.6, 4.2)
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color=LINE, linewidth=1)
    for (name, each), colour, marker in zip(curves.items(), (ACCENT, RIGHT, GREY), "o^s", strict=True):
        used = np.array(each["pairs"]) > 0
        x, y = np.array(each["probability"])[used], np.array(each["share"])[used]
        axes.plot(x, y, color=colour, marker=marker, markersize=4, label=f"{name}: error {each['ece']['value']:.3f}")
    axes.set(xlabel="probability", ylabel="share of pairs that show the same polyp", xlim=(0, 1), ylim=(0, 1))
    axes.set_title(title, fontsize=8)
    axes.legend(loc="upper left", fontsize=7)
    text = "Reliability diagram of the probability that two tracks show the same lesion"
    return finished(figure, "calibration", f"{text}. {title}".strip())
