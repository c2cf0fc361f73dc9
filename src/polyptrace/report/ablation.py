"""The paper's Table 2: what its parts are worth, from results of runs that left some of them out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from polyptrace.config import Config, as_dict, read_config
from polyptrace.errors import UserError
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
    groups, notes = [], []
    for title, members in blocks.items():
        if len(members) < (1 if title == "Other settings" else 2):
            continue
        some = [rows[n] for n in members]
        standing = standings(some, measures)
        lines = []
        for place, n in enumerate(members):
            marks = [Cell("✓" if switch else "✗") for switch in on[n]]
            cells = [figure_cell(some[place], place, m, s) for m, s in zip(measures, standing, strict=True)]
            lines.append(Row(_named(rows[n], settings[n], usual), (*marks, *cells)))
        groups.append((title, tuple(lines)))
        notes = ranking_notes([c.note for line in lines for c in line.cells], standing)
    return Table(
        "table2",
        "Table 2. Ablations",
        table_caption(rows, measures),
        (*(Column("", name) for name in SWITCHES), *(Column(m.over, m.name, m.direction) for m in measures)),
        tuple(groups),
        (*notes, "Best and second best are of each block."),
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
