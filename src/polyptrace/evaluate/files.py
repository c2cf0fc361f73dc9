"""Evaluation of saved embeddings: which file each task reads, and what the results record about the files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from polyptrace.config import Config, Evaluate, as_dict
from polyptrace.core.files import file_hash, read_json
from polyptrace.embed import Embeddings, concatenate
from polyptrace.evaluate.results import Method, Results
from polyptrace.evaluate.running import evaluate, method_of


def evaluate_files(
    paths: Mapping[str, Sequence[Path]],
    settings: Evaluate,
    histology: dict[str, int] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Results:
    """The results of each task on the embeddings at its paths, with the settings and the hashes of the files."""
    tables: dict[tuple[Path, ...], Embeddings] = {}
    for task, some in paths.items():
        key = tuple(some)
        if key not in tables:
            tables[key] = concatenate([Embeddings.load(path) for path in key], where=f"embeddings of {task}")
    by_task = {task: tables[tuple(some)] for task, some in paths.items()}
    first = next(iter(tables))
    results = evaluate(
        by_task, list(paths), settings, method=_method(tables[first], first[0]), histology=histology, say=say
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
