"""The parts of a page about how things came about: training and its supervision, protocol, provenance."""

from collections.abc import Sequence
from pathlib import Path

import torch

from polyptrace.core.errors import UserError
from polyptrace.data import Dataset
from polyptrace.encoders import load_encoder
from polyptrace.evaluate import Results
from polyptrace.report.ablation import ablation_table, training_settings
from polyptrace.report.bag import bag_caption, bag_figure, bag_of, telling_anchor
from polyptrace.report.curriculum import curriculum_caption, curriculum_figures
from polyptrace.report.markup import html
from polyptrace.report.page import Section, facts, folded, paragraph, plots
from polyptrace.report.purity import Ints, Tracklets, through_curriculum
from polyptrace.report.standing import MAIN, measured
from polyptrace.report.style import Drawing
from polyptrace.report.tables import generated
from polyptrace.report.tracklet_vectors import projected, training_tracklets
from polyptrace.report.training import Run, load_run, training_figures

#: Frames that a run's encoder may be asked to encode for a page, without and with a GPU.
FRAMES, FRAMES_GPU = 4_000, 100_000


def training(folders: Sequence[Path], data: Sequence[Dataset]) -> Section | None:
    """Loss curves, Figure 2 and Figure 1 of the runs that were given."""
    if not folders:
        return None
    runs = [load_run(folder) for folder in folders]
    drawings = training_figures(runs)
    caption = (
        f"{', '.join(run.name for run in runs)}: every step (faint) and a running mean. The task gets harder as τ"
        " grows, so the loss need not fall. Condition: the paper's, at least one member of the bag nearer to its anchor"
        " than any member is to another anchor."
    )
    body = plots(drawings, caption)
    for folder, run in zip(folders, runs, strict=True):
        if run.config.train.method != "ours":
            continue
        dataset = _training_data(run, data)
        if dataset is None:
            body += paragraph(f"Figures 1 and 2 of {run.name}: left out, its training data are not there (--data).")
            continue
        part, more = _supervision(folder, run, dataset)
        body += part
        drawings += more
        break  # one run's bags are enough: others of the same data look the same
    return Section("training", "Training", body, drawings=tuple(drawings))


def ablations(rows: Sequence[Results], runs: Sequence[Path]) -> Section | None:
    """Table 2."""
    columns = measured(rows, MAIN)
    if not rows or not columns:
        return None
    table = ablation_table(rows, [training_settings(row, runs) for row in rows], columns)
    return Section("ablations", "Ablations", html(table), (table,))


def protocol(rows: Sequence[Results]) -> Section:
    """How it was measured, what was left out and why, and what made each row."""
    shown = [(name, task) for name, task in rows[0].tasks.items() if task.status == "done"]
    said = [(name, "; ".join(f"{_word(k)} {_said(v)}" for k, v in task.protocol.items())) for name, task in shown]
    done = [task.protocol for row in rows for task in row.tasks.values() if task.status == "done"]
    drawn = dict.fromkeys(f"{p['cluster']}s" for p in done if "cluster" in p)
    draws = dict.fromkeys(f"{p['draws']:,}" for p in done if "draws" in p)
    text = (
        "Vectors are compared by cosine. Retrieval: each track asks for the others of its polyp. Re-identification:"
        " every pair of tracks. Size and histology: a small probe on frozen vectors, trained on some polyps and tested"
        " on the others."
    )
    if drawn:
        text += (
            f" Intervals (95 %) and tests: bootstrap over {' or '.join(drawn)}, {' or '.join(draws)} draws; methods are"
            " compared on the same draws."
        )
    body = paragraph(text) + facts(said)
    skipped: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for name, task in row.tasks.items():
            if task.reason:
                skipped.setdefault((name, task.reason), []).append(row.method.name)
    if skipped:
        left_out = [
            (name, reason + ("" if len(names) == len(rows) else f" ({', '.join(names)})"))
            for (name, reason), names in skipped.items()
        ]
        body += "<figure><figcaption><h3>Not measured, or not in full</h3></figcaption>" + facts(left_out) + "</figure>"
    body += folded("Where each row comes from", facts([(row.method.name, _origin(row)) for row in rows]))
    return Section("protocol", "How it was measured", body)


def _supervision(folder: Path, run: Run, dataset: Dataset) -> tuple[str, list[Drawing]]:
    """Figure 2 and Figure 1 on the data a run was trained on, with its settings and its encoder."""
    tracklets, chosen = training_tracklets(dataset)
    settings = run.config.supervision
    encoder = _encoder(folder)
    anchor = telling_anchor(tracklets, settings)
    tracklets, told = _with_vectors(tracklets, encoder, dataset, chosen)
    name = ", ".join(dict.fromkeys(dataset.tracklets.dataset[chosen].tolist()))
    data = f"Generated procedures ({name})" if generated([name]) else name
    curriculum = through_curriculum(tracklets, settings)
    figures = curriculum_figures(curriculum)
    body = plots(figures, f"The paper's Figure 2, for {run.name}. {curriculum_caption(curriculum, data)} {told}")
    early, late = (bag_of(tracklets, settings, anchor, c) for c in (0.0, 1.0))
    drawing = bag_figure(dataset, tracklets, chosen, early, late)
    body += plots(
        [drawing], f"The paper's Figure 1, for {run.name}. {bag_caption(dataset, chosen, early, late)}", wide=True
    )
    return body, [*figures, drawing]


def _training_data(run: Run, data: Sequence[Dataset]) -> Dataset | None:
    """The dataset a run was trained on: the one it names, if it is there, or one that was given under its name."""
    if run.data is None:
        return None
    given = [dataset for dataset in data if dataset.path.name == run.data.name]
    if given:
        return given[0]
    return Dataset.open(run.data) if (run.data / "dataset.json").is_file() else None


def _encoder(folder: Path) -> torch.nn.Module | None:
    try:
        return load_encoder(folder)
    except UserError:  # a run that has not finished has no encoder yet, and still has figures
        return None


def _with_vectors(
    tracklets: Tracklets, encoder: torch.nn.Module | None, dataset: Dataset, chosen: Ints
) -> tuple[Tracklets, str]:
    frames = int(dataset.tracklets.length[chosen].sum())
    most = FRAMES_GPU if torch.cuda.is_available() else FRAMES
    if encoder is None:
        return tracklets, ""
    if frames > most:
        return tracklets, f"Shares of the gradient are left out: {frames:,} frames are many to encode here."
    vectors = projected(encoder, dataset, chosen)
    return Tracklets(tracklets.video, tracklets.position, tracklets.polyp, vectors), ""


def _word(key: str) -> str:
    return key.replace("_", " ") + ":"


def _said(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _origin(row: Results) -> str:
    sources = [f"{one.get('path', '')} (sha256 {str(one.get('sha256', ''))[:12]})" for one in row.embeddings]
    made = row.provenance
    command = " ".join(map(str, made.get("command", [])))
    parts = [row.method.encoder and f"encoder {row.method.encoder}", *sources, command and f"command: {command}"]
    return "; ".join(part for part in parts if part) or "not stated"
