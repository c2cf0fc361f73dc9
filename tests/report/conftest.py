"""Small results of three methods on a coloured dataset, one of them with a name that every format must escape."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polyptrace.cli.report import run_figures
from polyptrace.config import Config, Evaluate, as_toml
from polyptrace.data import Dataset
from polyptrace.embed import Embeddings
from polyptrace.evaluate import Results, evaluate
from polyptrace.evaluate.results import Method, Metric, Task
from polyptrace.report import load_rows, write_report
from polyptrace.report.curves import load_run

NASTY = "_<script>alert(1)</script> & 100 % of $x_1$ {a} | **b** \\ `c` ~ ^ #"

COLUMNS = ("unit", "dataset", "video", "track", "position", "last", "fps", "polyp")


def embedded(dataset: Dataset, noise: float, seed: int) -> Embeddings:
    """Vectors around a random centre per polyp: the less noise, the better the method. Sizes and histology made up."""
    table = dataset.tracklets
    random = np.random.default_rng(seed)
    names, code = np.unique(table.polyp.astype(str), return_inverse=True)
    centres = np.random.default_rng(0).normal(size=(len(names), 16))
    vectors = centres[code] + noise * random.normal(size=(len(table), 16))
    return Embeddings(
        vectors=vectors.astype(np.float32),
        **{name: getattr(table, name) for name in COLUMNS},
        size_mm=np.where(code % 2 == 0, 3.0, 9.0),
        histology=np.where(code % 3 == 0, "AD", "HP").astype(object),
    )


def measured(embeddings: Embeddings, method: Method) -> Results:
    """All tasks, with few draws."""
    tasks = ("retrieval", "reid", "size", "histology", "counting")
    return evaluate(dict.fromkeys(tasks, embeddings), tasks, Evaluate(bootstrap=40, repeats=1), method=method)


@pytest.fixture(scope="session")
def results(coloured: Dataset, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Folders: ours (two seeds), a supervised method that saw test data, and a baseline with a terrible name."""
    cost = {"paper_macs": 33.1e9, "flops": 65.4e9}
    rows = {
        "ours-0": (0.6, 1, Method("Ours", labels="label-free", params=26_400_000, flops=cost)),
        "ours-1": (0.7, 2, Method("Ours", labels="label-free", params=26_400_000, flops=cost)),
        "ta": (0.9, 3, Method("TA", "Fully supervised", "labels", params=1_136_000_000, trained_on_test=("size",))),
        "nasty": (4.0, 4, Method(NASTY, "Baseline")),
    }
    folder = tmp_path_factory.mktemp("results")
    for name, (noise, seed, method) in rows.items():
        measured(embedded(coloured, noise, seed), method).save(folder / name)
    return [folder / name for name in rows]


@pytest.fixture(scope="session")
def rows(results: list[Path]) -> list[Results]:
    """The results as they were saved, seeds apart."""
    return [Results.load(folder) for folder in results]


@pytest.fixture(scope="session")
def run(coloured: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder as training leaves it, without the weights."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    folder.mkdir()
    (folder / "config.toml").write_text(
        as_toml(Config(), ("supervision", "loss", "encoder", "train")), encoding="utf-8"
    )
    (folder / "environment.json").write_text(json.dumps({"data": {"path": str(coloured.path)}}), encoding="utf-8")
    lines = [{"step": n + 1, "loss": 3 / (1 + n), "condition": n / 40, "tau": 0.3 + n / 10} for n in range(40)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def report(results: list[Path], coloured: Dataset, run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole report folder of these results, with pictures, a run, and the paper's own figures."""
    out = tmp_path_factory.mktemp("report") / "report"
    runs, data = [load_run(run)], [coloured]
    figures = run_figures(runs, data)
    write_report(load_rows(results), out, datasets=data, runs=runs, training_figures=figures, paper=True)
    return out


@pytest.fixture(scope="session")
def unlabelled(coloured: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results on procedures of which nobody knows the polyps: clusters, and reasons."""
    chosen, table = coloured.select("track"), coloured.tracklets
    embeddings = Embeddings.from_columns(
        {
            "vectors": np.random.default_rng(0).normal(size=(len(chosen), 8)),
            "unit": table.unit[chosen],
            "dataset": np.full(len(chosen), "synthetic", object),
            **{name: getattr(table, name)[chosen] for name in ("video", "track", "position", "last", "fps")},
        }
    )
    tasks = ("retrieval", "reid", "counting")
    folder = tmp_path_factory.mktemp("unlabelled") / "results"
    actual = evaluate(dict.fromkeys(tasks, embeddings), tasks, method=Method("Mine"))
    replace(actual, generated=True).save(folder)
    return folder


@pytest.fixture
def make_row() -> Callable[..., Results]:
    """A row with one task and one figure, whose draws scatter about its value."""

    def make(
        name: str,
        value: float,
        *,
        spread: float = 0.01,
        group: str = "Self-supervised",
        task: str = "retrieval",
        figure: str = "map",
        key: str = "k",
        saw: tuple[str, ...] = (),
        seed: int = 0,
    ) -> Results:
        draws = value + spread * np.random.default_rng(seed).normal(size=200)
        actual = Task(
            "track",
            "tracks",
            datasets=("test",),
            metrics={figure: Metric(value, value - 2 * spread, value + 2 * spread, 50, "queries")},
            counts={"tracklets": 50, "videos": 5, "polyps": 20},
            drawn=20,
            draws_key=key,
        )
        return Results(Method(name, group, trained_on_test=saw), {task: actual}, {f"{task}/draws/{figure}": draws})

    return make
