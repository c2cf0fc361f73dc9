"""The rows of comparisons and ablations: what is trained or used as it is, under which name and with which settings.

ROWS["tpc"]                                     a method of the table, with its published settings
frozen_row("dinov2-small:dinov2-small.pth")     an encoder that is not trained
BLOCKS["loss"]                                  variants of our method that an ablation compares

The first two blocks are the paper's Table 2. The paper does not state the τ of its fixed sampling, so three are
compared, nor whether two frames of one tracklet form a pair of the frame level, so frames only has two rows. All
variants have the paper's 60 tracklets per batch and see the same number of frames.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from polyptrace.config import Config, Settings, from_dict
from polyptrace.core.errors import UserError
from polyptrace.encoders import ColourGrid
from polyptrace.encoders.encoder import FROZEN, LABEL_USE
from polyptrace.encoders.encoder_folder import training_record
from polyptrace.encoders.foundation import FOUNDATION_MODELS
from polyptrace.encoders.weights import DEFAULT
from polyptrace.evaluate.results import BASELINE, ENDOSCOPY_FM, GENERAL_FM, SELF_SUPERVISED, SUPERVISED
from polyptrace.methods import METHODS
from polyptrace.train import SECTIONS as TRAINING

#: Foundation models of the group `ENDOSCOPY_FM`; the others are general-purpose models.
ENDOSCOPY = ("endofm", "endofm-lv", "endovit", "surgenet")


@dataclass(frozen=True)
class ComparisonRow:
    """One row of a table: trained with `method`, or, if that is empty, the frozen `encoder`."""

    name: str  # of its folder
    title: str  # in the table
    group: str
    method: str = ""
    settings: Settings = field(default_factory=dict)  # by section and key: how the row differs from its method
    encoder: str = ""  # a known name, a folder or a file; `frozen:` alone: the backbone of the settings
    weights: str = ""  # of a foundation model
    labels: str = ""  # which labels a frozen encoder was trained with, if known
    seen: tuple[str, ...] = ()  # datasets that its pretraining used
    start: str = ""  # row whose training precedes this one's

    @property
    def sections(self) -> tuple[str, ...]:
        """The sections of the settings that affect the row."""
        used = TRAINING if self.method else ("encoder",) if self.encoder == FROZEN else ()
        return (*used, "embed", "evaluate")

    @property
    def trained(self) -> bool:
        """Whether the row has an encoder that learns; `untrained` has a method but no training step."""
        return bool(self.method) and self.settings.get("train", {}).get("epochs") != 0


_NO_LABELS = LABEL_USE[0]
_UNTRAINED: Settings = {"train": {"epochs": 0, "frames": 0}}
_BY_POLYP: Settings = {"views": {"source": "polyp"}}

#: By name, in the order of the table. Rows named -polyp draw views with labels, as the released code does. MVE and TPC
#: start from a trained SFE, as published; rows named -scratch start from the backbone weights like the other methods.
#: ours-sfe starts from a trained SFE, which is not published, to compare ours with MVE and TPC from the same start.
ROWS = {
    row.name: row
    for row in (
        ComparisonRow("colour-grid", "Colour grid", BASELINE, encoder=ColourGrid.name, labels=_NO_LABELS),
        ComparisonRow("frozen", "Frozen backbone", BASELINE, encoder=FROZEN, labels=_NO_LABELS),
        ComparisonRow("untrained", "Untrained", BASELINE, "ours", _UNTRAINED),
        ComparisonRow("sup", "Sup", SUPERVISED, "sup"),
        ComparisonRow("ta", "TA", SUPERVISED, "ta"),
        ComparisonRow("tpc-polyp", "TPC, views by polyp", SELF_SUPERVISED, "tpc", _BY_POLYP, start="sfe-polyp"),
        ComparisonRow("tpc-scratch", "TPC, not from SFE", SELF_SUPERVISED, "tpc"),
        ComparisonRow("tpc", "TPC", SELF_SUPERVISED, "tpc", start="sfe"),
        ComparisonRow("mve-scratch", "MVE, not from SFE", SELF_SUPERVISED, "mve"),
        ComparisonRow("mve", "MVE", SELF_SUPERVISED, "mve", start="sfe"),
        ComparisonRow("sfe-polyp", "SFE, views by polyp", SELF_SUPERVISED, "sfe", _BY_POLYP),
        ComparisonRow("sfe", "SFE", SELF_SUPERVISED, "sfe"),
        ComparisonRow("ours-sfe", "Ours, from SFE", SELF_SUPERVISED, "ours", start="sfe"),
        ComparisonRow("ours", "Ours", SELF_SUPERVISED, "ours"),
    )
}

#: The rows of `all`: the six methods, and three rows without training.
ALL = ("colour-grid", "frozen", "untrained", "sup", "ta", "tpc", "mve", "sfe", "ours")


def row_config(row: ComparisonRow, *layers: Settings) -> Config:
    """All settings of a row: its method's published ones, updated by the layers in order, then by its own."""
    config = METHODS[row.method].published() if row.method else Config()
    for layer in (*layers, row.settings):
        config = from_dict(layer, config, where=f"row {row.name}")
    return config


def select_rows(text: str, known: Mapping[str, ComparisonRow], all_names: Sequence[str]) -> list[ComparisonRow]:
    """The rows of a comma-separated list of names, in the order of the table; `all` means `all_names`."""
    names: list[str] = []
    for word in (w.strip() for w in text.split(",")):
        names += all_names if word == "all" else [word] if word else []
    for name in names:
        if name not in known:
            raise UserError(f"{name}: no such row -> all, or any of {', '.join(known)}")
    return [row for row in known.values() if row.name in names]


def frozen_row(text: str) -> ComparisonRow:
    """The row of an encoder that is not trained: [TITLE=]ENCODER[:WEIGHTS].

    ENCODER is a known name (default, colour-grid, a foundation model) or the folder of a run or an encoder of ours,
    which records how it was trained.
    """
    title, rest = _title_and_encoder(text)
    encoder, _, weights = rest.partition(":")
    if encoder in FOUNDATION_MODELS:
        model = FOUNDATION_MODELS[encoder]
        group = ENDOSCOPY_FM if encoder in ENDOSCOPY else GENERAL_FM
        row = ComparisonRow(encoder, model.title, group, "", {}, encoder, weights, labels=_NO_LABELS, seen=model.seen)
    elif encoder == ColourGrid.name:
        row = ROWS["colour-grid"]
    elif rest.startswith(FROZEN):
        backbone, _, weights = rest.removeprefix(FROZEN).partition(":")
        row = ComparisonRow("", f"Frozen {backbone}", BASELINE, "", {}, FROZEN + backbone, weights, labels=_NO_LABELS)
    else:
        record = training_record(rest)
        group = ROWS[record.method].group if record.method in ROWS else SELF_SUPERVISED
        if record.method and not record.total_frames:  # not trained
            group = BASELINE
        shown = "Default encoder" if rest == DEFAULT else Path(rest).resolve().name
        row = ComparisonRow("", shown, group, encoder=rest, labels=record.label_use)
    title, name = title or row.title, "" if title else row.name
    return replace(row, name=name or folder_name(title), title=title)


def has_known_name(encoder: str) -> bool:
    """Whether ENCODER[:WEIGHTS] begins with a known name."""
    name = encoder.partition(":")[0]
    return name in (*FOUNDATION_MODELS, ColourGrid.name) or encoder.startswith(FROZEN) or encoder == DEFAULT


def _title_and_encoder(text: str) -> tuple[str, str]:
    """The title, "" if none, and the rest of [TITLE=]ENCODER[:WEIGHTS]; both may contain "=" themselves."""
    words = text.split("=")
    for start in reversed(range(len(words))):
        encoder = "=".join(words[start:])
        if has_known_name(encoder) or os.path.exists(encoder):  # noqa: PTH110 - unlike Path.exists, False for a long text
            return "=".join(words[:start]), encoder
    raise UserError(f"--frozen {text}: neither a known encoder nor a folder -> 'polyptrace encoders' lists names")


def folder_name(title: str) -> str:
    """A title as the name of a folder: lower case, words joined by hyphens."""
    name = re.sub(r"[^a-z0-9.]+", "-", title.lower()).strip("-.")
    if not name:
        raise UserError(f"{title!r}: contains no letter or digit -> give the row another name")
    return name


OUR_ROW = ROWS["ours"]
#: Tracklets per batch of every variant.
BATCH = 60


@dataclass(frozen=True)
class AblationBlock:
    """Variants that are compared with each other, and what they have in common."""

    title: str
    rows: tuple[ComparisonRow, ...]


def variant(name: str, title: str, /, **settings: dict[str, Any]) -> ComparisonRow:
    """Our method with other settings, by section."""
    return ComparisonRow(name, title, OUR_ROW.group, OUR_ROW.method, settings)


def _supervision(name: str, title: str, /, **settings: Any) -> ComparisonRow:
    return variant(name, title, supervision=settings)


def _fixed(tau: float) -> ComparisonRow:  # tau_fit: also where our own τ_max is estimated from the data
    title = f"Exponential, fixed τ = {tau:g}"
    return _supervision(f"fixed-{tau:g}", title, curriculum="fixed", tau_max=tau, tau_fit="none")


def _tau_max(tau: float) -> ComparisonRow:
    return _supervision(f"tau-{tau:g}", f"τ_max = {tau:g}", tau_max=tau, tau_fit="none")


def _bag_size(size: int) -> ComparisonRow:
    return _supervision(f"bag-{size}", f"K = {size}", bag_size=size, bags_per_batch=BATCH // (1 + size))


def _multi_positive(name: str, temperature: float) -> ComparisonRow:
    title = f"Multi-positive on the same bags, temperature {temperature:g}"
    return variant(name, title, loss={"name": "multi-positive", "temperature": temperature})


_MULTI_POSITIVE = _multi_positive("multi-positive", 0.07)

#: By name, in the order of the table; the first two are the paper's Table 2.
BLOCKS = {
    "sampling": AblationBlock(
        "Sampling and curriculum",
        (_supervision("nearest", "Nearest K", sampling="nearest"), _fixed(1), _fixed(4), _fixed(12), OUR_ROW),
    ),
    "level": AblationBlock(
        "Level of the loss",
        (
            variant("frame", "Frames only", loss={"tracklet_weight": 0.0}),
            variant(
                "frame-across-tracklets",
                "Frames only, no pairs of frames of one tracklet",
                loss={"tracklet_weight": 0.0, "within_tracklet": False},
            ),
            variant("tracklet", "Tracklets only", loss={"frame_weight": 0.0}),
            OUR_ROW,
        ),
    ),
    "loss": AblationBlock(
        "Loss",
        (
            _MULTI_POSITIVE,
            _multi_positive("multi-positive-0.25", 0.25),
            variant("equation-1", "Equation 1 as printed", loss={"form": "paper"}),
            variant("across-tracklets", "No pairs of frames of one tracklet", loss={"within_tracklet": False}),
            OUR_ROW,
        ),
    ),
    "composition": AblationBlock(
        "Which bags share a batch",
        (
            _supervision("no-overlap", "No two that overlap in time", composition="no-overlap"),
            _supervision("one-per-video", "One per procedure", composition="one-per-video"),
            OUR_ROW,
        ),
    ),
    "bag-size": AblationBlock("Bag size", (_bag_size(1), _bag_size(2), _bag_size(9), OUR_ROW)),
    "tau-max": AblationBlock(
        "Highest temperature",
        (
            _tau_max(2),
            _tau_max(4),
            _tau_max(24),
            _supervision("tau-share", "τ_max as a share of the procedure", tau_fit="share"),
            _supervision("tau-gaps", "τ_max from the gaps in time", tau_fit="gaps"),
            _supervision("uniform", "Any tracklet of the procedure", sampling="uniform"),
            OUR_ROW,
        ),
    ),
}

#: The blocks of the paper's Table 2.
TABLE2 = ("sampling", "level")

#: The rows of a sweep over datasets: our loss and the multi-positive one on the same bags, and TPC.
SWEEP = (_MULTI_POSITIVE, ROWS["tpc"], OUR_ROW)


def select_blocks(text: str) -> list[AblationBlock]:
    """The blocks of a comma-separated list of blocks or single variants, `table2` or `all`.

    A single variant is compared with our own settings, inside its block.
    """
    wanted = [word.strip() for word in text.split(",") if word.strip()]
    variants = {row.name for block in BLOCKS.values() for row in block.rows}
    for word in wanted:
        if word not in ("all", "table2", *BLOCKS, *variants):
            raise UserError(f"{word}: no such variant -> all, table2, {', '.join([*BLOCKS, *sorted(variants)])}")
    blocks = []
    for name, block in BLOCKS.items():
        whole = "all" in wanted or name in wanted or ("table2" in wanted and name in TABLE2)
        rows = tuple(row for row in block.rows if whole or row is OUR_ROW or row.name in wanted)
        if whole or len(rows) > 1:
            blocks.append(AblationBlock(block.title, rows))
    if not blocks:
        raise UserError(f"--variants {text}: nothing to compare ours with -> name a block or another variant")
    return blocks
