"""The paper's Figure 2 for any dataset: sampled ranks and the ratio of pure bags along the curriculum."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from torch import Tensor, nn

from polyptrace.config import Loss, Supervision
from polyptrace.core.arrays import Floats, Ints, Strings
from polyptrace.core.console import counted
from polyptrace.core.device import choose_device
from polyptrace.core.randomness import torch_generator
from polyptrace.data import Dataset
from polyptrace.data.identity import polyp_keys, video_keys
from polyptrace.drawing import ACCENT, INK, RIGHT, SOFT, WRONG, Drawing, canvas, finished, styled
from polyptrace.encoders.encoder import TrainingRecord
from polyptrace.evaluate.bootstrap import draw_counts, interval, mean_draws
from polyptrace.losses import gradient_share
from polyptrace.methods.method import fixed_length
from polyptrace.supervision.bags import ranks_of, timeline
from polyptrace.supervision.batches import bags_with_settings
from polyptrace.supervision.curriculum import anchor_temperatures, fitted_temperature
from polyptrace.supervision.purity import bag_purity

#: Bootstrap draws of an interval, and the percentiles of the sampled ranks that are shown.
DRAWS = 500
PERCENTILES = (10, 90)

#: Small datasets are sampled repeatedly at each point, up to MAX_REPEATS times, until there are this many bags.
MIN_BAGS, MAX_REPEATS = 2000, 20

#: Tracklets that are encoded at a time.
BATCH = 32


@dataclass(frozen=True)
class TrainingTracklets:
    """The N fixed-length tracklets of a dataset, as columns. Training itself never reads `polyp`."""

    video: Strings
    position: Ints
    polyp: Strings  # "" unknown
    index: Ints  # of each tracklet in the dataset
    vectors: Tensor | None = None  # (N, D), after the projector
    temperature: float = Loss.temperature  # of the loss that trained the encoder of the vectors

    def __len__(self) -> int:
        return len(self.position)


@dataclass(frozen=True)
class CurriculumStatistics:
    """Bags at P points of the curriculum."""

    c: Floats  # (P,)
    tau: Floats  # (P,) mean over anchors
    rank: Floats  # (P, 3): mean, 10th and 90th percentile of the sampled ranks
    anchors: int
    repeats: int  # bags drawn per anchor at each point
    bag_size: int
    purity: "list[Purity]"  # at each point


@dataclass(frozen=True)
class Purity:
    """The purity of bags of known polyps: shares with their 95 % interval over polyps, None where they are unknown."""

    bags: int
    polyps: int
    pure: Floats | None = None  # bags whose members all show the anchor's polyp: (3,) value, low, high
    wrong: Floats | None = None  # members that show another polyp
    wrong_gradient: Floats | None = None  # of the gradient, received by these members; needs vectors


def training_tracklets(dataset: Dataset) -> TrainingTracklets:
    """The tracklets that bags are drawn from, without vectors."""
    index, table = fixed_length(dataset), dataset.tracklets
    return TrainingTracklets(video_keys(table)[index], table.position[index], polyp_keys(table)[index], index)


@torch.no_grad()
def add_vectors(
    tracklets: TrainingTracklets, dataset: Dataset, encoder: nn.Module, rows: Ints | None = None
) -> TrainingTracklets:
    """The tracklets with vectors of an encoder, after its projector if it has one, and the temperature of its loss.

    With `rows`, only these tracklets are encoded; the vectors of the others are 0.
    """
    rows = np.arange(len(tracklets)) if rows is None else rows
    device, _ = choose_device("auto", "device")
    encoder = encoder.to(device).eval()
    projector = getattr(encoder, "projector", nn.Identity())
    parts = []
    for some in np.split(rows, range(BATCH, len(rows), BATCH)):
        crops, mask = dataset.gather(tracklets.index[some])
        parts.append(projector(encoder(crops.to(device), mask.to(device))).float().cpu())
    encoded = torch.cat(parts)
    vectors = torch.zeros(len(tracklets), encoded.shape[1])
    vectors[torch.from_numpy(rows)] = encoded
    loss = getattr(encoder, "record", TrainingRecord()).settings.get("loss", {})
    return replace(tracklets, vectors=vectors, temperature=loss.get("temperature", Loss.temperature))


def curriculum_statistics(
    tracklets: TrainingTracklets, settings: Supervision, points: int = 21, seed: int = 0
) -> CurriculumStatistics:
    """Draws a bag for every anchor at `points` values of c from 0 to 1."""
    c = np.linspace(0, 1, points)
    tau, rank, purity = np.empty(points), np.full((points, 3), np.nan), []
    repeats = min(max(1, -(-MIN_BAGS // len(tracklets))), MAX_REPEATS)
    anchors = 0
    for point, progress in enumerate(c):
        drawn = [bags_at(tracklets, settings, float(progress), seed, repeat) for repeat in range(repeats)]
        tau[point] = drawn[0][1]
        anchors = int((drawn[0][0] >= 0).any(1).sum())
        ranks = np.concatenate([bag_ranks(tracklets, bags) for bags, _ in drawn])
        known = ranks[np.isfinite(ranks)]
        if len(known):
            rank[point] = [known.mean(), *np.percentile(known, PERCENTILES)]
        purity.append(estimate_purity(tracklets, [bags for bags, _ in drawn], seed))
    return CurriculumStatistics(c, tau, rank, anchors, repeats, settings.bag_size, purity)


def bags_at(
    tracklets: TrainingTracklets, settings: Supervision, c: float, seed: int, repeat: int = 0
) -> tuple[Ints, float]:
    """The bags (N, K) that training would draw at progress c, and their mean temperature."""
    video, position = tracklets.video, tracklets.position
    tau_max = fitted_temperature(video, position, settings)
    tau = anchor_temperatures([c], np.zeros(len(tracklets), np.int64), tau_max, settings)
    generator = torch_generator(seed, round(c * 1_000_000), repeat)
    bags = bags_with_settings(timeline(video, position), np.arange(len(tracklets)), settings, tau, generator)
    if settings.small_videos == "leave-out":
        bags[(bags < 0).any(1)] = -1
    shown = {"uniform": math.inf, "nearest": 0.0}.get(settings.sampling, tau)
    return bags, float(np.mean(shown))


def bag_ranks(tracklets: TrainingTracklets, bags: Ints) -> Floats:
    """The temporal rank (N, K) of each member; NaN where a bag has no more members."""
    return ranks_of(tracklets.video, tracklets.position, np.arange(len(bags)), bags)


def estimate_purity(tracklets: TrainingTracklets, repeats: Sequence[Ints], seed: int = 0) -> Purity:
    """The purity of bags (N, K), drawn once or repeatedly, with intervals from a bootstrap over polyps."""
    polyps: list[Strings] = []
    columns: list[list[Floats]] = []
    for bags in repeats:
        purity = bag_purity(bags, tracklets.polyp)
        columns.append([purity.pure.astype(np.float64), purity.wrong_share])
        if tracklets.vectors is not None:
            shares = gradient_shares(tracklets.vectors, purity.anchor, bags[purity.anchor], tracklets.temperature)
            columns[-1].append((purity.wrong * shares).sum(1))
        polyps.append(tracklets.polyp[purity.anchor])
    names, cluster = np.unique(np.concatenate(polyps).astype(str), return_inverse=True)
    if not len(names):
        return Purity(0, 0)
    counts = draw_counts(len(names), DRAWS, seed)
    values = [np.concatenate(column) for column in zip(*columns, strict=True)]
    estimates = (np.array([v.mean(), *interval(mean_draws(v, cluster, counts), len(names))]) for v in values)
    return Purity(len(cluster), len(names), *estimates)


def gradient_shares(vectors: Tensor, anchors: Ints, bags: Ints, temperature: float) -> Floats:
    """The share (A, K) of the gradient that each member of bags (A, K) of anchors (A,) receives."""
    members = torch.from_numpy(bags)
    y, z = vectors[torch.from_numpy(anchors)], vectors[members.clamp(min=0)]
    return np.asarray(gradient_share(y, z, temperature, members >= 0).double())


def _along(statistics: CurriculumStatistics, name: str) -> Floats | None:
    """A share of `Purity` along the curriculum (P, 3); None if it is unknown at a point."""
    shares = [getattr(purity, name) for purity in statistics.purity]
    return None if any(share is None for share in shares) else np.stack(shares)


Alignment = Literal["center", "top", "bottom"]


@styled
def sampled_ranks(statistics: CurriculumStatistics) -> Drawing:
    """Figure 2, left: the temporal rank of the sampled members against c."""
    figure, axes = _panel(statistics, "Sampled rank", "rank of the members")
    mean, low, high = statistics.rank.T
    axes.fill_between(statistics.c, low, high, color=ACCENT, alpha=0.16, linewidth=0)
    axes.plot(statistics.c, mean, color=ACCENT)
    axes.set_ylim(0, None)
    _at_end(axes, mean[-1], f"{mean[-1]:.1f}\nmean", ACCENT)
    _at_end(axes, high[-1], f"{high[-1]:.0f}\n90th perc.", SOFT)
    description = f"Sampled rank along the curriculum: mean {mean[0]:.1f} at c = 0, {mean[-1]:.1f} at c = 1."
    return finished(figure, "curriculum_rank", description)


@styled
def pure_bags(statistics: CurriculumStatistics) -> Drawing | None:
    """Figure 2, right: the ratio of pure bags; None without labels."""
    pure = _along(statistics, "pure")
    if pure is None:
        return None
    figure, axes = _panel(statistics, "Pure bags", "ratio of pure bags", percent=True)
    _line(axes, statistics.c, pure, RIGHT, "pure")
    axes.set_ylim(0, 1.03)
    ratio = pure[:, 0]
    description = f"Ratio of pure bags along the curriculum: {ratio[0]:.0%} at c = 0, {ratio[-1]:.0%} at c = 1."
    return finished(figure, "curriculum_pure", description)


@styled
def wrong_members(statistics: CurriculumStatistics) -> Drawing | None:
    """The share of members that show another polyp, and of the gradient they receive; None without vectors."""
    wrong, of_gradient = _along(statistics, "wrong"), _along(statistics, "wrong_gradient")
    if wrong is None or of_gradient is None:
        return None
    figure, axes = _panel(statistics, "Wrong associations", "share with another polyp", percent=True)
    members, gradient = wrong[-1, 0], of_gradient[-1, 0]
    near = abs(members - gradient) < 0.15 * wrong[:, 2].max()  # keep the labels apart
    alignments: tuple[Alignment, Alignment] = ("center", "center") if not near else ("bottom", "top")
    upper, lower = alignments if members >= gradient else alignments[::-1]
    _line(axes, statistics.c, wrong, SOFT, "members", upper)
    _line(axes, statistics.c, of_gradient, WRONG, "gradient", lower)
    axes.set_ylim(0, None)
    description = (
        f"At c = 1, {members:.1%} of the members show other polyps and receive {gradient:.1%} of the gradient."
    )
    return finished(figure, "curriculum_gradient", description)


def curriculum_figures(statistics: CurriculumStatistics) -> list[Drawing]:
    """Figure 2 and, with vectors, the effect of the loss on wrong members; as far as labels and vectors allow."""
    drawings = (sampled_ranks(statistics), pure_bags(statistics), wrong_members(statistics))
    return [drawing for drawing in drawings if drawing is not None]


def curriculum_caption(statistics: CurriculumStatistics, data: str) -> str:
    """Counts behind the figures, and what their bands show."""
    times = "a bag" if statistics.repeats == 1 else f"{statistics.repeats} bags"
    text = (
        f"{data}: {times} of {statistics.bag_size} for each of {counted(statistics.anchors, 'anchor')} at"
        f" {counted(len(statistics.c), 'point')} of the curriculum. Rank band: 10th to 90th percentile."
    )
    last = statistics.purity[-1]
    if last.pure is None:
        return text + " Purity is unknown, because no polyp is labelled."
    return text + (
        f" A bag is pure if every member shows the anchor's polyp: {counted(last.bags, 'bag')} of"
        f" {counted(last.polyps, 'polyp')} at each point. Other bands: 95 % confidence intervals over polyps."
    )


def _panel(statistics: CurriculumStatistics, title: str, label: str, *, percent: bool = False) -> tuple[Figure, Axes]:
    """A figure over c, with a second axis at the top for the temperature."""
    figure = canvas(3.2, 2.75)
    axes = figure.add_subplot(title=title, xlim=(0, 1), xlabel="curriculum c", ylabel=label)
    axes.grid(visible=False, axis="x")
    if percent:
        axes.yaxis.set_major_formatter(PercentFormatter(1, 0, " %"))
    if np.isfinite(statistics.tau).all() and statistics.tau.all():
        ticks = np.linspace(0, 1, 5)
        top = axes.secondary_xaxis("top")
        top.set_xticks(ticks, [f"{tau:.3g}" for tau in np.interp(ticks, statistics.c, statistics.tau)])
        top.set_xlabel("temperature τ", labelpad=4)
        top.spines["top"].set_visible(False)
        top.tick_params(length=0)
    return figure, axes


def _line(axes: Axes, c: Floats, share: Floats, colour: str, name: str, alignment: Alignment = "center") -> None:
    value, low, high = share.T
    axes.fill_between(c, low, high, color=colour, alpha=0.16, linewidth=0)
    axes.plot(c, value, color=colour)
    _at_end(axes, float(value[-1]), f"{100 * value[-1]:.1f} %\n{name}", colour, alignment)


def _at_end(axes: Axes, value: float, text: str, colour: str, alignment: Alignment = "center") -> None:
    axes.plot([1], [value], "o", color=colour, markersize=4, clip_on=False)
    axes.annotate(text, (1, value), xytext=(8, 0), textcoords="offset points", va=alignment, color=INK, fontsize=8)
