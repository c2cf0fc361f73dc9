"""The paper's Table 2: what its parts are worth, from results of runs that left some of them out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyptrace.config import Config, as_dict, read_config
from polyptrace.core.errors import UserError
from polyptrace.evaluate import Results
from polyptrace.report.standing import Measure, standings
from polyptrace.report.tables import Cell, Column, Row, Table, figure_cell, ranking_notes, row_name, table_caption

SWITCHES = ("Exp. sampling", "Curriculum", "Frame", "Tracklet")

#: Settings that Table 2 has no switch for, and that make another row when they differ.
OTHERS = (
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


def training_settings(row: Results, runs: Sequence[Path]) -> Config:
    """The settings a row was trained with: config.toml of the run that its embeddings came from."""
    origin = str(row.embeddings[0].get("info", {}).get("from", "")) if row.embeddings else ""
    folder = Path(origin) if origin else None
    named = [run for run in runs if folder is not None and run.name == folder.name]
    for candidate in [*named, *([folder] if folder is not None else [])]:
        if (candidate / "config.toml").is_file():
            return read_config(candidate / "config.toml")
    raise UserError(
        f"{row.method.name}: the run that its vectors came from ({origin or 'not stated'}) is not there"
        " -> give it with --run"
    )


def switches(config: Config) -> tuple[bool, bool, bool, bool]:
    """Exponential sampling, curriculum, loss on frames, loss on tracklets: on or off."""
    sampled = config.supervision.sampling == "exponential"
    curriculum = sampled and config.supervision.curriculum == "cosine"
    return sampled, curriculum, config.loss.frame_weight > 0, config.loss.tracklet_weight > 0


@dataclass(frozen=True)
class Line:
    """A row of an ablation: its name, its results, and the settings it was trained with."""

    name: str
    results: Results
    config: Config


def ablation_table(rows: Sequence[Results], settings: Sequence[Config], measures: Sequence[Measure]) -> Table:
    """Blocks as in the paper: sampling and curriculum, level of the loss, then whatever else differs from the rest."""
    usual = _usual([_flat(config) for config in settings])
    plain = [not _unusual(config, usual) for config in settings]
    on = [switches(config) for config in settings]
    blocks = {
        "Sampling and curriculum": [n for n in range(len(rows)) if plain[n] and on[n][2] and on[n][3]],
        "Level of the loss": [n for n in range(len(rows)) if plain[n] and on[n][0] and on[n][1]],
        "Other settings": [n for n in range(len(rows)) if not plain[n]],
    }
    lines = [Line(_named(row, config, usual), row, config) for row, config in zip(rows, settings, strict=True)]
    shown = {
        title: [lines[n] for n in members]
        for title, members in blocks.items()
        if len(members) >= (1 if title == "Other settings" else 2)
    }
    return block_table("table2", "Table 2. Ablations", shown, measures)


def block_table(name: str, title: str, blocks: Mapping[str, Sequence[Line]], measures: Sequence[Measure]) -> Table:
    """Lines in blocks, each with its own best; the paper's four switches stand before the figures."""
    groups, notes = [], []
    for block, lines in blocks.items():
        rows = [line.results for line in lines]
        standing = standings(rows, measures)
        shown = []
        for place, line in enumerate(lines):
            marks = [Cell("✓" if switch else "✗") for switch in switches(line.config)]
            cells = [figure_cell(line.results, place, m, s) for m, s in zip(measures, standing, strict=True)]
            shown.append(Row(line.name, (*marks, *cells)))
        groups.append((block, tuple(shown)))
        notes += ranking_notes([cell.note for row in shown for cell in row.cells], standing, "a column of the block")
    everything = [line.results for lines in blocks.values() for line in lines]
    return Table(
        name,
        title,
        table_caption(everything, measures),
        (*(Column("", switch) for switch in SWITCHES), *(Column(m.over, m.name, m.direction) for m in measures)),
        tuple(groups),
        (*dict.fromkeys(notes), "Best and second best are of each block."),
    )


def _flat(config: Config) -> dict[str, Any]:
    tree = as_dict(config, ("supervision", "loss", "encoder"))
    return {name: tree[name.partition(".")[0]][name.partition(".")[2]] for name in OTHERS}


def _usual(settings: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The most common value of each setting."""
    values = {name: [one[name] for one in settings] for name in OTHERS}
    return {name: max(dict.fromkeys(each), key=each.count) for name, each in values.items()}


def _unusual(config: Config, usual: dict[str, Any]) -> list[str]:
    """Settings that differ from the usual ones and that no switch of the table shows."""
    own = _flat(config)
    hidden = {"supervision.sampling"} if own["supervision.sampling"] in ("exponential", "nearest") else set()
    return [f"{name} = {own[name]}" for name in OTHERS if own[name] != usual[name] and name not in hidden]


def _named(row: Results, config: Config, usual: dict[str, Any]) -> str:
    return ", ".join([row_name(row), *_unusual(config, usual)])
