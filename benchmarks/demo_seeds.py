"""python -m benchmarks demo_seeds DEMO

Runs the demo in the folder DEMO (or continues it), trains its encoder with the training seeds 0 to 4, and compares each
with the untrained encoder and the colour grid. A lead is shown if it is larger than half the width of both 95 %
intervals, in retrieval mAP and in ReID AUROC. Writes DEMO/seeds.json and prints the table; exit code 1 if a lead of a
seed is not shown. About two minutes per seed on two cores, after the demo.
"""

import sys
from pathlib import Path

from benchmarks import command_line
from benchmarks.result import markdown_table
from polyptrace import demo
from polyptrace.core.files import provenance, write_json
from polyptrace.evaluate import Results

SEEDS = range(5)
BASELINES = ("colour-grid", "untrained")
METRICS = {"mAP": ("retrieval", "map"), "AUROC": ("reid", "auroc")}

#: (value, low, high) of each metric, in per cent.
Figures = dict[str, tuple[float, float, float]]


def main(words: list[str] | None = None) -> None:
    """Trains and evaluates what does not exist yet, and writes the comparison."""
    parser = command_line.parser("demo_seeds", __doc__)
    parser.add_argument("demo", type=Path, help="folder of the demo")
    folder = parser.parse_args(words).demo
    demo.run([*demo.steps(folder), *(step for seed in SEEDS[1:] for step in seed_steps(folder, seed))])
    rows = {name: figures(folder / "results" / name) for name in BASELINES}
    rows |= {f"seed {seed}": figures(folder / f"results/ours{suffix(seed)}") for seed in SEEDS}
    leads = {name: least_lead(row, [rows[each] for each in BASELINES]) for name, row in rows.items() if "seed" in name}
    write_json(folder / "seeds.json", {"rows": rows, "least_lead": leads, "made_by": provenance()})
    print(table(rows, leads))
    if min(leads.values()) <= 1:
        sys.exit("a lead is not larger than half the width of the intervals")


def seed_steps(folder: Path, seed: int) -> list[demo.Step]:
    """The demo's training and its evaluation with another training seed."""
    data, name = folder / "data", suffix(seed)
    run, vectors, results = folder / f"run{name}", folder / f"embeddings/ours{name}", folder / f"results/ours{name}"
    train = f"train ours --data {data}/train --out {run} --init-from default {demo.TRAIN} --train.seed {seed}"
    return [
        (run / "encoder", train),
        (vectors, f"embed {run} --data {data}/test --out {vectors}"),
        (results, f"evaluate --embeddings {vectors} --out {results}"),
    ]


def suffix(seed: int) -> str:
    """What distinguishes the folders of a training seed; the demo itself has seed 0."""
    return f"-{seed}" if seed else ""


def figures(results: Path) -> Figures:
    """The metrics of a results folder with their intervals."""
    tasks = Results.load(results).tasks
    values = {name: tasks[task].metrics[key] for name, (task, key) in METRICS.items()}
    return {
        name: (round(100 * each.value, 3), round(100 * each.low, 3), round(100 * each.high, 3))
        for name, each in values.items()
    }


def least_lead(row: Figures, baselines: list[Figures]) -> float:
    """The smallest lead over a baseline in any metric, divided by half the width of the wider interval."""
    return min(
        (row[name][0] - other[name][0]) / max((each[2] - each[1]) / 2 for each in (row[name], other[name]))
        for other in baselines
        for name in METRICS
    )


def table(rows: dict[str, Figures], leads: dict[str, float]) -> str:
    """The metrics with their intervals, and the smallest lead, as a Markdown table."""
    lines = [("", *METRICS, "smallest lead / half-width")]
    for name, row in rows.items():
        cells = [f"{value:.1f} [{low:.1f}–{high:.1f}]" for value, low, high in row.values()]
        lines.append((name, *cells, f"{leads[name]:.1f}" if name in leads else ""))
    return markdown_table(lines)
