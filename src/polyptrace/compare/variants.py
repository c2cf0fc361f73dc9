"""The variants of our method that ablations compare: settings that differ from its own, in the blocks of a table.

The first two blocks are the paper's Table 2. It does not say at which τ it sampled without a curriculum, so three are
there. All have the paper's 60 tracklets in a batch and see the same number of frames.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from polyptrace.compare.rows import ROWS, Row
from polyptrace.core.errors import UserError

OURS = ROWS["ours"]


@dataclass(frozen=True)
class Block:
    """Variants that are compared with each other, and what they are about."""

    name: str
    title: str
    rows: tuple[Row, ...]


def variant(name: str, title: str, settings: Mapping[str, str]) -> Row:
    """Our method with other settings."""
    return Row(name, title, OURS.group, OURS.method, settings)


def _fixed(tau: int) -> Row:
    return variant(
        f"fixed-{tau}", f"Exponential, fixed τ = {tau}", {"supervision.curriculum": "fixed", **_highest(tau)}
    )


def _tau_max(tau: int) -> Row:
    return variant(f"tau-{tau}", f"τ_max = {tau}", _highest(tau))


def _highest(tau: int) -> dict[str, str]:
    """The setting of τ_max itself, even where ours is given one that fits the data."""
    return {"supervision.tau_max": str(tau), "supervision.tau_fit": "none"}


def _bag_size(size: int) -> Row:
    """A bag size, with as many bags as make 60 tracklets."""
    settings = {"supervision.bag_size": str(size), "supervision.bags_per_batch": str(60 // (1 + size))}
    return variant(f"bag-{size}", f"K = {size}", settings)


_SYMMETRIC = variant("symmetric", "Symmetric form, as released", {"loss.form": "symmetric"})
_MULTI_POSITIVE = variant("multi-positive", "Multi-positive on the same bags", {"loss.name": "multi-positive"})

#: By name, in the order of the table; the first two are the paper's Table 2.
BLOCKS = {
    block.name: block
    for block in (
        Block(
            "sampling",
            "Sampling and curriculum",
            (
                variant("nearest", "Nearest K", {"supervision.sampling": "nearest"}),
                _fixed(1),
                _fixed(4),
                _fixed(12),
                OURS,
            ),
        ),
        Block(
            "level",
            "Level of the loss",
            (
                variant("frame", "Frames only", {"loss.tracklet_weight": "0"}),
                variant("tracklet", "Tracklets only", {"loss.frame_weight": "0"}),
                OURS,
            ),
        ),
        Block(
            "loss",
            "Loss",
            (
                _MULTI_POSITIVE,
                _SYMMETRIC,
                variant(
                    "symmetric-across",
                    "Symmetric form, no pairs of frames inside a tracklet",
                    {"loss.form": "symmetric", "loss.within_tracklet": "false"},
                ),
                OURS,
            ),
        ),
        Block(
            "composition",
            "Which bags meet in a batch",
            (
                variant("no-overlap", "No two that overlap in time", {"supervision.composition": "no-overlap"}),
                variant("one-per-video", "One per procedure", {"supervision.composition": "one-per-video"}),
                OURS,
            ),
        ),
        Block("bag-size", "Bag size", (_bag_size(1), _bag_size(2), _bag_size(9), OURS)),
        Block(
            "tau-max",
            "Highest temperature",
            (
                _tau_max(2),
                _tau_max(4),
                _tau_max(24),
                variant("tau-share", "τ_max a share of the procedure", {"supervision.tau_fit": "share"}),
                variant("tau-gaps", "τ_max from the gaps in time", {"supervision.tau_fit": "gaps"}),
                variant("uniform", "Any tracklet of the procedure", {"supervision.sampling": "uniform"}),
                OURS,
            ),
        ),
    )
}

#: The paper's own.
TABLE2 = ("sampling", "level")

#: What a sweep over datasets compares: the losses, on the same bags.
SWEPT = (_MULTI_POSITIVE, _SYMMETRIC, OURS)


def chosen_blocks(text: str) -> list[Block]:
    """The blocks of a comma-separated list: names of blocks or of single variants, `table2`, `all`.

    A single variant stands in its block beside our own settings.
    """
    wanted = [word.strip() for word in text.split(",") if word.strip()]
    variants = {row.name for block in BLOCKS.values() for row in block.rows}
    for word in wanted:
        if word not in ("all", "table2", *BLOCKS, *variants):
            raise UserError(
                f"{word}: no such variant -> all, table2, {', '.join(BLOCKS)}, {', '.join(sorted(variants))}"
            )
    blocks = []
    for block in BLOCKS.values():
        whole = "all" in wanted or block.name in wanted or ("table2" in wanted and block.name in TABLE2)
        rows = tuple(row for row in block.rows if whole or row is OURS or row.name in wanted)
        if whole or len(rows) > 1:
            blocks.append(Block(block.name, block.title, rows))
    return blocks
