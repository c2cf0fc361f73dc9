"""Training runs: their curves, and tables of runs that differ in their settings: ablations (Table 2) and sweeps."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from polyptrace.config import Config, as_dict, read_config
from polyptrace.core.arrays import Floats
from polyptrace.core.errors import UserError
from polyptrace.drawing import ACCENT, METHODS, Drawing, LineStyle, canvas, finished, legend, shortened, styled
from polyptrace.evaluate import Results
from polyptrace.report.ranking import Measure
from polyptrace.report.tables import (
    Cell,
    Column,
    Row,
    Table,
    ranked_cells,
    ranking_notes,
    row_name,
    table_caption,
    value_columns,
)
from polyptrace.train import read_environment

#: Keys of metrics.jsonl that are plotted, with their titles.
PLOTTED = {"loss": "Loss", "condition": "Anchors that meet the condition", "tau": "Temperature τ"}

#: The four parts of the method that the paper's Table 2 switches on and off.
SWITCHES = ("Exp. sampling", "Curriculum", "Frame", "Tracklet")

#: Settings that Table 2 has no switch for. A row that differs in one of them is listed under "Other settings".
OTHER_SETTINGS = (
    "supervision.sampling",
    "supervision.tau_min",
    "supervision.tau_max",
    "supervision.tau_fit",
    "supervision.bag_size",
    "supervision.composition",
    "loss.name",
    "loss.form",
    "loss.temperature",
    "encoder.backbone",
)


@dataclass(frozen=True)
class Run:
    """The parts of a run folder that a report shows."""

    folder: Path
    config: Config
    data: Path | None  # the dataset it was trained on, if recorded
    data_hash: str  # SHA-256 of its tracklets.parquet, "" if not recorded
    step: Floats
    metrics: dict[str, Floats]  # by key, (steps,); NaN where a line has no value

    @property
    def name(self) -> str:
        return self.folder.name


def load_run(folder: Path) -> Run:
    """Reads config.toml, environment.json and metrics.jsonl of a run folder."""
    path = folder / "metrics.jsonl"
    if not path.is_file():
        raise UserError(f"{folder}: not a run (no metrics.jsonl) -> give a folder written by 'polyptrace train'")
    lines = []
    for number, text in enumerate(path.read_bytes().splitlines(), 1):
        try:
            line = json.loads(text)
            values = {key: np.nan if line.get(key) is None else float(line[key]) for key in PLOTTED}
            step = float(line["step"])
            if not 0 <= step < np.inf:
                raise ValueError
            lines.append({"step": step, **values})
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            raise UserError(
                f"{path}: line {number} is not a JSON object with a step -> wait if the run is still writing"
            ) from None
    if not lines:
        raise UserError(f"{path}: empty -> wait until the run has completed a step")
    data = read_environment(folder).data if (folder / "environment.json").is_file() else None
    metrics = {key: np.array([line[key] for line in lines]) for key in PLOTTED}
    return Run(
        folder,
        read_config(folder / "config.toml"),
        Path(data.path) if data else None,
        data.tracklets if data else "",
        np.array([line["step"] for line in lines]),
        {key: values for key, values in metrics.items() if np.isfinite(values).any()},
    )


def training_curves(runs: Sequence[Run]) -> list[Drawing]:
    """One drawing for each metric that some run logged."""
    return [_training_curve(runs, key) for key in PLOTTED if any(key in run.metrics for run in runs)]


@styled
def _training_curve(runs: Sequence[Run], key: str) -> Drawing:
    figure = canvas(3.2, 2.4)
    axes = figure.add_subplot()
    entries, last = [], []
    for number, run in enumerate(runs):
        if key in run.metrics:
            colour = ACCENT if number == 0 else METHODS[(number - 1) % len(METHODS)]
            known = np.isfinite(run.metrics[key])
            final = _draw_curve(axes, run.step[known], run.metrics[key][known], colour, smooth=key != "tau")
            last.append(f"{run.name} {final:.3g}")
            entries.append((LineStyle(colour), shortened(run.name)))
    axes.set(title=PLOTTED[key], xlabel="step", xlim=(0, None), ylim=(0, None))
    if key == "condition":
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_formatter(PercentFormatter(1, 0, " %"))
    axes.grid(visible=False, axis="x")
    if len(runs) > 1:
        legend(axes, entries)
    description = f"{PLOTTED[key]} during training; last value: {', '.join(last)}."
    return finished(figure, f"training_{key}", description)


def _draw_curve(axes: Axes, step: Floats, values: Floats, colour: str, *, smooth: bool) -> float:
    """Draws a curve, faint with its running mean if `smooth`; returns the last value."""
    if not smooth:
        axes.step(step, values, where="post", color=colour, linewidth=1.7)
        return float(values[-1])
    mean = running_mean(values, max(1, len(values) // 20))
    axes.plot(step, values, color=colour, linewidth=0.7, alpha=0.3)
    axes.plot(step, mean, color=colour, linewidth=1.7)
    return float(mean[-1])


def running_mean(values: Floats, window: int) -> Floats:
    """A running mean over `window` steps, over fewer at both ends."""
    kernel = np.ones(window)
    return np.asarray(np.convolve(values, kernel, "same") / np.convolve(np.ones(len(values)), kernel, "same"))


def training_settings(row: Results, runs: Sequence[Path]) -> Config:
    """The settings that a row was trained with: config.toml of the run that its embeddings were computed with."""
    origin = str(row.embeddings[0].get("info", {}).get("from", "")) if row.embeddings else ""
    if origin:
        for folder in [*(run for run in runs if run.name == Path(origin).name), Path(origin)]:
            if (folder / "config.toml").is_file():
                return read_config(folder / "config.toml")
    raise UserError(
        f"{row.method.name}: the run that its embeddings came from ({origin or 'not recorded'}) does not exist"
        " -> give it with --run"
    )


@dataclass(frozen=True)
class AblationRow:
    """A row of Table 2: its name, its results, and the settings it was trained with."""

    name: str
    results: Results
    config: Config


def block_table(
    name: str, title: str, blocks: Mapping[str, Sequence[AblationRow]], measures: Sequence[Measure]
) -> Table:
    """The paper's Table 2: rows in blocks that are ranked separately, with the switches of the method."""
    groups: list[tuple[str, tuple[Row, ...]]] = []
    notes: list[str] = []
    for block, members in blocks.items():
        cells, rankings = ranked_cells([member.results for member in members], measures)
        lines = [
            Row(member.name, (*(Cell("✓" if on else "✗") for on in switches(member.config)), *values))
            for member, values in zip(members, cells, strict=True)
        ]
        groups.append((block, tuple(lines)))
        notes += ranking_notes(groups[-1:], rankings, "within the column of a block")
    columns = [*(Column("", switch) for switch in SWITCHES), *value_columns(measures)]
    caption = table_caption([member.results for members in blocks.values() for member in members], measures)
    notes = [*dict.fromkeys(notes), "Best and second best are marked in each block."]
    return Table(name, title, caption, tuple(columns), tuple(groups), tuple(notes))


def switches(config: Config) -> tuple[bool, bool, bool, bool]:
    """Whether exponential sampling, the curriculum, the frame loss and the tracklet loss are on."""
    sampled = config.supervision.sampling == "exponential"
    curriculum = sampled and config.supervision.curriculum == "cosine"
    return sampled, curriculum, config.loss.frame_weight > 0, config.loss.tracklet_weight > 0


def sweep_table(name: str, title: str, points: Mapping[str, Sequence[AblationRow]], measure: Measure) -> Table:
    """Variants by datasets, for one measure. Each dataset is ranked separately."""
    variants = list(dict.fromkeys(row.results.method.name for rows in points.values() for row in rows))
    cells: dict[str, list[Cell]] = {variant: [] for variant in variants}
    notes: list[str] = []
    captions = []
    for point, members in points.items():
        results = {member.results.method.name: member.results for member in members}
        column, rankings = ranked_cells(list(results.values()), [measure])
        values = {name: cell for name, (cell,) in zip(results, column, strict=True)}
        for variant in variants:
            cells[variant].append(values.get(variant, Cell(remark="not measured")))
        notes += ranking_notes([("", (Row("", tuple(values.values())),))], rankings)
        counts = table_caption(list(results.values())[:1], [measure]).partition(": ")[2]
        if counts:
            seeds = " to ".join(map(str, sorted({row.method.seeds for row in results.values()})))
            of_seeds = "" if seeds == "1" else f", {seeds} training seeds"
            captions.append(f"{point}: {counts.removesuffix('.')}{of_seeds}.")
    columns = tuple(Column(f"{measure.over} {measure.name} {measure.direction}", point) for point in points)
    rows = tuple(Row(variant, tuple(cells[variant])) for variant in variants)
    notes = [*dict.fromkeys(notes), "Best and second best are marked in each column."]
    return Table(name, title, " ".join(captions), columns, (("", rows),), tuple(notes))


def ablation_table(rows: Sequence[Results], configs: Sequence[Config], measures: Sequence[Measure]) -> Table:
    """Table 2 in the paper's blocks (sampling and curriculum, level of the loss), then other changed settings."""
    flat = [_other_settings(config) for config in configs]
    usual = {name: max((one[name] for one in flat), key=[one[name] for one in flat].count) for name in OTHER_SETTINGS}
    members: dict[str, list[AblationRow]] = {"Sampling and curriculum": [], "Level of the loss": []}
    others = []
    for row, config, settings in zip(rows, configs, flat, strict=True):
        changed = _changed(settings, usual)
        member = AblationRow(", ".join([row_name(row), *changed]), row, config)
        sampled, curriculum, frame, tracklet = switches(config)
        if changed:
            others.append(member)
            continue
        if frame and tracklet:
            members["Sampling and curriculum"].append(member)
        if sampled and curriculum:
            members["Level of the loss"].append(member)
    blocks = {title: block for title, block in members.items() if len(block) > 1}
    blocks |= {"Other settings": others} if others else {}
    return block_table("table2", "Table 2. Ablations", blocks, measures)


def _other_settings(config: Config) -> dict[str, Any]:
    tree = as_dict(config, ("supervision", "loss", "encoder"))
    return {name: tree[name.partition(".")[0]][name.partition(".")[2]] for name in OTHER_SETTINGS}


def _changed(settings: dict[str, Any], usual: dict[str, Any]) -> list[str]:
    """Settings that differ from most rows and that no switch of the table shows."""
    shown = {"supervision.sampling"} if settings["supervision.sampling"] in ("exponential", "nearest") else set()
    changed = [name for name in OTHER_SETTINGS if settings[name] != usual[name] and name not in shown]
    return [f"{name} = {settings[name]}" for name in changed]
