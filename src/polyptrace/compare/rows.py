"""The rows of a comparison, as data: what is trained or taken as it is, under which name, with which settings.

ROWS["tpc"]                                     a method of the table, with its published settings
frozen_row("dinov2-small:dinov2-small.pth")     an encoder that is taken as it is
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from polyptrace.config import read_config
from polyptrace.core.errors import UserError
from polyptrace.core.files import read_json
from polyptrace.encoders import FROZEN, ColourGrid
from polyptrace.encoders.foundation import FOUNDATION_MODELS

#: Foundation models of the table's second group; the others are of the first.
ENDOSCOPY = ("endofm", "endofm-lv", "endovit", "surgenet")


@dataclass(frozen=True)
class Row:
    """One row of a table. It is trained with `method`, or, where that is empty, `encoder` is taken as it is."""

    name: str  # of its folder
    title: str  # in the table
    group: str
    method: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)  # section.key: value, what makes this row what it is
    encoder: str = ""  # a known name, a folder or a file
    weights: str = ""  # of a foundation model
    labels: str = ""  # what a frozen encoder's training used of them, where that is known
    seen: tuple[str, ...] = ()  # datasets that its pretraining saw


_SUPERVISED, _OWN, _BASELINE = "Fully supervised", "Self-supervised", "Baseline"
_BY_POLYP = {"views.source": "polyp"}

#: By name, in the order of the table. Those with -polyp draw views as the released code does, with labels.
ROWS = {
    row.name: row
    for row in (
        Row("colour-grid", "Colour grid", _BASELINE, encoder=ColourGrid.name),
        Row("untrained", "Untrained", _BASELINE, "ours", {"train.epochs": "0", "train.frames": "0"}),
        Row("sup", "Sup", _SUPERVISED, "sup"),
        Row("ta", "TA", _SUPERVISED, "ta"),
        Row("tpc-polyp", "TPC, views by polyp", _OWN, "tpc", _BY_POLYP),
        Row("tpc", "TPC", _OWN, "tpc"),
        Row("mve", "MVE", _OWN, "mve"),
        Row("sfe-polyp", "SFE, views by polyp", _OWN, "sfe", _BY_POLYP),
        Row("sfe", "SFE", _OWN, "sfe"),
        Row("ours", "Ours", _OWN, "ours"),
    )
}

#: What `all` means: the six methods, and the two rows that show what is there without learning.
ALL = ("colour-grid", "untrained", "sup", "ta", "tpc", "mve", "sfe", "ours")


def chosen_rows(text: str, known: Mapping[str, Row], all_names: Sequence[str]) -> list[Row]:
    """The rows of a comma-separated list of names, in which `all` stands for the usual ones."""
    names: list[str] = []
    for word in (w.strip() for w in text.split(",")):
        names += all_names if word == "all" else [word] if word else []
    for name in names:
        if name not in known:
            raise UserError(f"{name}: no such row -> all, or any of {', '.join(known)}")
    return [row for row in known.values() if row.name in names]


def frozen_row(text: str) -> Row:
    """The row of an encoder that is taken as it is: [TITLE=]ENCODER[:WEIGHTS].

    ENCODER is a known name (colour-grid, a foundation model) or the folder of a run or an encoder of ours, whose own
    record says how it was trained.
    """
    title, _, rest = text.rpartition("=")
    encoder, _, weights = rest.partition(":")
    if encoder in FOUNDATION_MODELS:
        model = FOUNDATION_MODELS[encoder]
        group = "Endoscopy FM" if encoder in ENDOSCOPY else "General Purpose FM"
        name = folder_name(title) if title else encoder
        return Row(name, title or model.title, group, encoder=encoder, weights=weights, seen=model.seen)
    if encoder == ColourGrid.name:
        return ROWS["colour-grid"]
    if rest.startswith(FROZEN):
        backbone, _, weights = rest.removeprefix(FROZEN).partition(":")
        title = title or f"Frozen {backbone}"
        return Row(folder_name(title), title, _BASELINE, encoder=FROZEN + backbone, weights=weights)
    if not Path(rest).exists():
        raise UserError(f"--frozen {text}: neither a known encoder nor a folder -> 'polyptrace encoders' lists names")
    title = title or Path(rest).resolve().name
    method, labels = _training_of(Path(rest))
    group = ROWS[method].group if method in ROWS else _OWN
    return Row(folder_name(title), title, group, encoder=rest, labels=labels)


def folder_name(title: str) -> str:
    """A title as the name of a folder: lower case, words joined by hyphens."""
    name = re.sub(r"[^a-z0-9.]+", "-", title.lower()).strip("-.")
    if not name:
        raise UserError(f"{title!r}: has no letter or digit -> give the row another name")
    return name


def _training_of(folder: Path) -> tuple[str, str]:
    """Method and use of labels of a run, as its folder says; "" where it does not."""
    if not (folder / "config.toml").is_file() or not (folder / "environment.json").is_file():
        return "", ""
    used = str(read_json(folder / "environment.json").get("labels", ""))
    labels = "labels" if not used.startswith("none") else "label-free given tracks" if "given" in used else "label-free"
    return read_config(folder / "config.toml").train.method, labels
