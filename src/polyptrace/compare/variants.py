"""The variants of our method that ablations compare, in the blocks of a table.

The first two blocks are the paper's Table 2. The paper does not state the τ of its fixed sampling, so three are
compared. All variants have the paper's 60 tracklets per batch and see the same number of frames.
"""

from dataclasses import dataclass
from typing import Any

from polyptrace.compare.rows import ROWS, ComparisonRow
from polyptrace.config import Settings
from polyptrace.core.errors import UserError

OURS = ROWS["ours"]
BATCH = 60  # tracklets


@dataclass(frozen=True)
class AblationBlock:
    """Variants that are compared with each other, and what they have in common."""

    name: str
    title: str
    rows: tuple[ComparisonRow, ...]


def variant(name: str, title: str, settings: Settings) -> ComparisonRow:
    """Our method with other settings."""
    return ComparisonRow(name, title, OURS.group, OURS.method, settings)


def _supervision(name: str, title: str, /, **settings: Any) -> ComparisonRow:
    return variant(name, title, {"supervision": settings})


def _loss(name: str, title: str, /, **settings: Any) -> ComparisonRow:
    return variant(name, title, {"loss": settings})


def _fixed(tau: float) -> ComparisonRow:  # tau_fit: also where our own τ_max is estimated from the data
    title = f"Exponential, fixed τ = {tau:g}"
    return _supervision(f"fixed-{tau:g}", title, curriculum="fixed", tau_max=tau, tau_fit="none")


def _tau_max(tau: float) -> ComparisonRow:
    return _supervision(f"tau-{tau:g}", f"τ_max = {tau:g}", tau_max=tau, tau_fit="none")


def _bag_size(size: int) -> ComparisonRow:
    return _supervision(f"bag-{size}", f"K = {size}", bag_size=size, bags_per_batch=BATCH // (1 + size))


def _multi_positive(name: str, temperature: float) -> ComparisonRow:
    title = f"Multi-positive on the same bags, temperature {temperature:g}"
    return _loss(name, title, name="multi-positive", temperature=temperature)


_MULTI_POSITIVE = _multi_positive("multi-positive", 0.07)
_EQUATION_1 = _loss("equation-1", "Equation 1 as printed", form="paper")

#: By name, in the order of the table; the first two are the paper's Table 2.
BLOCKS = {
    block.name: block
    for block in (
        AblationBlock(
            "sampling",
            "Sampling and curriculum",
            (_supervision("nearest", "Nearest K", sampling="nearest"), _fixed(1), _fixed(4), _fixed(12), OURS),
        ),
        AblationBlock(
            "level",
            "Level of the loss",
            (
                _loss("frame", "Frames only", tracklet_weight=0.0),
                _loss("tracklet", "Tracklets only", frame_weight=0.0),
                OURS,
            ),
        ),
        AblationBlock(
            "loss",
            "Loss",
            (
                _MULTI_POSITIVE,
                _multi_positive("multi-positive-0.25", 0.25),
                _EQUATION_1,
                _loss("across-tracklets", "No pairs of frames of one tracklet", within_tracklet=False),
                OURS,
            ),
        ),
        AblationBlock(
            "composition",
            "Which bags share a batch",
            (
                _supervision("no-overlap", "No two that overlap in time", composition="no-overlap"),
                _supervision("one-per-video", "One per procedure", composition="one-per-video"),
                OURS,
            ),
        ),
        AblationBlock("bag-size", "Bag size", (_bag_size(1), _bag_size(2), _bag_size(9), OURS)),
        AblationBlock(
            "tau-max",
            "Highest temperature",
            (
                _tau_max(2),
                _tau_max(4),
                _tau_max(24),
                _supervision("tau-share", "τ_max as a share of the procedure", tau_fit="share"),
                _supervision("tau-gaps", "τ_max from the gaps in time", tau_fit="gaps"),
                _supervision("uniform", "Any tracklet of the procedure", sampling="uniform"),
                OURS,
            ),
        ),
    )
}

#: The blocks of the paper's Table 2.
TABLE2 = ("sampling", "level")

#: The rows of a sweep over datasets: three losses on the same bags.
SWEEP = (_MULTI_POSITIVE, _EQUATION_1, OURS)


def select_blocks(text: str) -> list[AblationBlock]:
    """The blocks of a comma-separated list of blocks or single variants, `table2` or `all`.

    A single variant is compared with our own settings, inside its block.
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
            blocks.append(AblationBlock(block.name, block.title, rows))
    return blocks
