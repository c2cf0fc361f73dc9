"""Evaluation of saved embeddings: which files each task reads, and what the results record about them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from polyptrace.config import Config, Evaluate, as_dict
from polyptrace.core.files import file_hash, read_json
from polyptrace.embed import Embeddings
from polyptrace.evaluate.inputs import join_inputs
from polyptrace.evaluate.results import Method, Results, method_of
from polyptrace.evaluate.tasks import evaluate


def evaluate_files(
    paths: Mapping[str, Sequence[Path]],
    settings: Evaluate,
    *,
    histology: Mapping[str, int] | None = None,
    train: Mapping[str, Sequence[Path]] | None = None,
    on_task: Callable[[str], None] = lambda _: None,
) -> Results:
    """The results of each task on the embeddings at its paths, with the settings and the hashes of the files.

    `train` gives the training part of a published split; `histology` and `on_task` are as in `evaluate`.
    """
    tables: dict[tuple[Path, ...], Embeddings] = {}

    def table(some: Sequence[Path], where: str) -> Embeddings:
        key = tuple(some)
        if key not in tables:
            tables[key] = join_inputs([(str(path), Embeddings.load(path)) for path in key], where)
        return tables[key]

    by_task = {task: table(some, f"embeddings of {task}") for task, some in paths.items()}
    parts = {task: table(some, f"training part of {task}") for task, some in (train or {}).items()}
    first = next(iter(paths))
    results = evaluate(
        by_task,
        list(paths),
        settings,
        method=_method(by_task[first], paths[first][0]),
        histology=histology,
        train=parts,
        on_task=on_task,
    )
    recorded = as_dict(Config(evaluate=settings), ("evaluate",))
    return replace(results, settings=recorded, embeddings=_sources(tables))


def _method(embeddings: Embeddings, path: Path) -> Method:
    """The method that the embeddings describe; a file without a description is named after itself."""
    method = method_of(embeddings)
    return method if method.name != "unnamed" else replace(method, name=path.stem)


def _sources(tables: Mapping[tuple[Path, ...], Embeddings]) -> list[dict[str, object]]:
    """Path, hash and description of each input."""
    sources = []
    for path in dict.fromkeys(path for paths in tables for path in paths):
        file = path / "embeddings.parquet" if path.is_dir() else path
        about = path / "embeddings.json"
        info = read_json(about) if about.exists() else {}
        sources.append({"path": str(path), "sha256": file_hash(file), "info": info})
    return sources
