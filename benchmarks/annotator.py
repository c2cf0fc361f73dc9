"""python -m benchmarks annotator VECTORS ... [--out docs/results/explore]

How many answers settle who is who: a simulated annotator answers from the polyps, and answers are closed transitively.
An order asks until every pair of tracks is decided. Orders: random, by cosine, by time between the tracks, ours, and
the least possible (n - k "same" answers and one "different" for each two lesions that time does not separate).
`right` counts the answers after which the lesions that are shown stay the true ones.

With wrong answers, ours continues with checks: it asks again where an answer is least probable. A wrong answer surfaces
if it is part of a contradiction that is shown.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import command_line
from benchmarks.result import columns
from polyptrace.core.arrays import Floats
from polyptrace.core.files import provenance, write_json
from polyptrace.core.randomness import numpy_generator
from polyptrace.embed import Embeddings
from polyptrace.explore import ExploredProcedure, Journal, Workspace

DRAWS = 1000
#: Orders whose lesions are compared with the truth after every answer.
WATCHED = ("time", "ours")


def main(words: list[str]) -> None:
    """Measures, and writes annotator.json."""
    parser = command_line.parser("annotator", __doc__)
    parser.add_argument("vectors", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/results/explore"))
    parser.add_argument("--wrong", type=float, default=0.05, help="share of wrong answers")
    parser.add_argument("--seeds", type=int, default=5, help="repetitions of random orders and wrong answers")
    options = parser.parse_args(words)
    procedures = [one for path in options.vectors for one in measure_vectors(path, options.wrong, options.seeds)]
    write_json(options.out / "annotator.json", summary(procedures, options.wrong) | {"made_by": provenance()})
    print(table(summary(procedures, options.wrong)))


@dataclass
class Session:
    """One simulated annotator on one procedure."""

    procedure: ExploredProcedure
    polyp: NDArray[Any]  # of each track
    wrong: float
    random: np.random.Generator

    def __post_init__(self) -> None:
        self.answers = 0
        self.wrong_events: set[int] = set()
        self.right_after: int | None = None
        self.given: dict[tuple[int, int], bool] = {}
        self.revised: set[int] = set()

    def answer(self, first: int, second: int) -> None:
        """Answers from the polyps, or the opposite; the error of a pair is drawn again when it is asked again."""
        truth = self.polyp[first] == self.polyp[second]
        same = truth != (self.random.random() < self.wrong)
        procedure = self.procedure
        items = (procedure.items[first], procedure.items[second])
        event = procedure.journal.append(
            "answer", "simulated", video=procedure.key, items=items, answer="same" if same else "different"
        )
        if (first, second) in self.given and self.given[first, second] != bool(same):
            earlier = [e.id for e in procedure.journal.events[:-1] if set(e.items) == set(items)]
            self.revised.update(earlier)
        self.given[first, second] = bool(same)
        if same != truth:
            self.wrong_events.add(event.id)
        self.answers += 1

    def right(self) -> bool:
        """Whether the lesions that are shown are the true ones."""
        lesion = self.procedure.grouping().lesion
        return bool(np.array_equal(lesion[:, None] == lesion, self.polyp[:, None] == self.polyp))

    def surfaced(self) -> int:
        """Wrong answers that a shown contradiction contains, or that the annotator has revised."""
        shown: set[int] = set(self.revised)
        for each in self.procedure.state().contradictions:
            shown |= {each.statement.event, *each.because}
        return len(self.wrong_events & shown)


def static_order(score: Floats) -> Callable[[ExploredProcedure], Iterator[tuple[int, int]]]:
    """Pairs by score, largest first, without those that the answers so far decide."""

    def pairs(procedure: ExploredProcedure) -> Iterator[tuple[int, int]]:
        first, second = np.triu_indices(len(score), 1)
        for number in np.argsort(-score[first, second], kind="stable").tolist():
            a, b = int(first[number]), int(second[number])
            state = procedure.state()
            if state.component[a] != state.component[b] and not state.apart(a, b):
                yield a, b

    return pairs


def our_order(procedure: ExploredProcedure) -> Iterator[tuple[int, int]]:
    """The questions of `explore`."""
    while (question := procedure.question()) is not None:
        yield question.first, question.second


def our_checks(procedure: ExploredProcedure) -> Iterator[tuple[int, int]]:
    """The checks of `explore`."""
    while (check := procedure.check()) is not None:
        yield check.first, check.second


def least(procedure: ExploredProcedure, polyp: NDArray[Any]) -> int:
    """The answers that no order can do without."""
    names, state = sorted(set(polyp.tolist())), procedure.state()
    tracks = [np.flatnonzero(polyp == name) for name in names]
    separate = sum(
        any(state.apart(int(a), int(b)) for a in tracks[i] for b in tracks[j])
        for i in range(len(names))
        for j in range(i)
    )
    return len(polyp) - len(names) + len(names) * (len(names) - 1) // 2 - separate


def measure_vectors(path: Path, wrong: float, seeds: int) -> list[dict[str, Any]]:
    """Answers of each order for each procedure of some vectors."""
    tracks = Embeddings.load(path).select("track")
    procedures = []
    with TemporaryDirectory() as folder:
        journal = Journal.open(Path(folder) / "answers.jsonl")
        journal.sync = False
        workspace = Workspace(path, tracks, journal)
        for number in range(len(workspace.keys)):
            measured = _measure_procedure(workspace, number, wrong, seeds)
            print(f"{path.name}, {measured['video']}: {measured['tracks']} tracks, {measured['answers']}", flush=True)
            procedures.append(measured)
    return procedures


def _measure_procedure(workspace: Workspace, number: int, wrong: float, seeds: int) -> dict[str, Any]:
    procedure = workspace.procedure(number)
    polyp = workspace.tracks.polyp[procedure.rows]
    tracks = procedure.tracks
    gap = np.maximum(tracks.start_s[:, None] - tracks.end_s, tracks.start_s - tracks.end_s[:, None])
    orders = {
        "cosine": static_order(tracks.unit @ tracks.unit.T),
        "time": static_order(-np.maximum(gap, 0.0)),
        "ours": our_order,
    }
    answers: dict[str, list[int]] = {"least": [least(procedure, polyp)]}
    right: dict[str, list[int]] = {}
    for seed in range(seeds):
        noise = numpy_generator(seed, number).random((len(polyp), len(polyp)))
        session = _run(procedure, polyp, static_order(noise), 0.0, seed)
        answers.setdefault("random", []).append(session.answers)
    for name, order in orders.items():
        session = _run(procedure, polyp, order, 0.0, 0, watch=name in WATCHED)
        answers[name] = [session.answers]
        if name in WATCHED:
            right[name] = [session.answers if session.right_after is None else session.right_after]
    errors: dict[str, list[int]] = {"answers": [], "checks": [], "wrong": [], "surfaced": [], "before": []}
    for seed in range(seeds):
        session = _run(procedure, polyp, our_order, wrong, seed)
        errors["answers"].append(session.answers)
        errors["before"].append(session.surfaced())
        for pair in our_checks(procedure):
            session.answer(*pair)
        errors["checks"].append(session.answers - errors["answers"][-1])
        errors["wrong"].append(len(session.wrong_events))
        errors["surfaced"].append(session.surfaced())
    return {"video": procedure.key, "tracks": len(polyp), "answers": answers, "right": right, "errors": errors}


def _run(
    procedure: ExploredProcedure,
    polyp: NDArray[Any],
    order: Callable[[ExploredProcedure], Iterator[tuple[int, int]]],
    wrong: float,
    seed: int,
    *,
    watch: bool = False,
) -> Session:
    """A session from an empty journal until the order ends."""
    procedure.journal.events.clear()
    procedure.forget()
    session = Session(procedure, polyp, wrong, numpy_generator(seed, len(polyp)))
    if watch:
        session.right_after = 0 if session.right() else None
    for pair in order(procedure):
        session.answer(*pair)
        if watch:
            right = session.right()
            session.right_after = (
                (session.answers if session.right_after is None else session.right_after) if right else None
            )
    return session


def summary(procedures: list[dict[str, Any]], wrong: float) -> dict[str, Any]:
    """Answers per track over all procedures, with 95 % intervals from a bootstrap over procedures."""
    tracks = np.array([each["tracks"] for each in procedures], np.float64)
    weights = numpy_generator(0).multinomial(len(procedures), np.full(len(procedures), 1 / len(procedures)), size=DRAWS)

    def ratio(numerator: Floats, denominator: Floats) -> dict[str, float]:
        draws = (weights @ numerator) / np.maximum(weights @ denominator, 1e-9)
        low, high = np.quantile(draws, (0.025, 0.975))
        total = float(numerator.sum() / max(float(denominator.sum()), 1e-9))
        return {"value": total, "low": float(low), "high": float(high)}

    def mean(kind: str, name: str) -> Floats:
        return np.array([np.mean(each[kind][name]) for each in procedures])

    per_track = {name: ratio(mean("answers", name), tracks) for name in ("random", "cosine", "time", "ours", "least")}
    errors = {
        "answers": ratio(mean("errors", "answers"), tracks),
        "checks": ratio(mean("errors", "checks"), tracks),
        "surfaced before checks": ratio(mean("errors", "before"), mean("errors", "wrong")),
        "surfaced": ratio(mean("errors", "surfaced"), mean("errors", "wrong")),
    }
    return {
        "procedures": len(procedures),
        "tracks": int(tracks.sum()),
        "answers per track": per_track,
        "right after, per track": {name: ratio(mean("right", name), tracks) for name in WATCHED},
        "right after: ours / time": ratio(mean("right", "ours"), mean("right", "time")),
        "ours / time": ratio(mean("answers", "ours"), mean("answers", "time")),
        "ours / least": ratio(mean("answers", "ours"), mean("answers", "least")),
        f"{wrong:.0%} wrong answers": errors,
        "by procedure": procedures,
    }


def table(result: dict[str, Any]) -> str:
    """The figures as text."""
    rows = [("", "value", "95 % interval")]
    for name, each in result.items():
        parts = {name: each} if isinstance(each, dict) and "value" in each else each if isinstance(each, dict) else {}
        for part, figure in parts.items():
            title = part if part == name else f"{name}: {part}"
            rows.append((title, f"{figure['value']:.3f}", f"{figure['low']:.3f}–{figure['high']:.3f}"))
    return columns(rows)
