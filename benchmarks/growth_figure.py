"""Figure: time and memory of every stage against the size of its input, on logarithmic axes."""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter
from PIL import Image

from polyptrace.core.files import atomic_file
from polyptrace.drawing import DASHES, GREY, MARKERS, POLYP_COLOURS, canvas, styled


@dataclass(frozen=True)
class Curve:
    """The measurements of one stage: seconds and MiB for each size."""

    name: str
    unit: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    memory: tuple[float, ...]

    @property
    def time_exponent(self) -> float:
        """The exponent of time over the last order of magnitude."""
        return exponent(self.sizes, self.seconds)

    @property
    def memory_exponent(self) -> float:
        """The exponent of memory over the last order of magnitude."""
        return exponent(self.sizes, self.memory)


def exponent(sizes: tuple[int, ...], values: tuple[float, ...]) -> float:
    """The slope of a line fitted to the last order of magnitude on logarithmic axes."""
    last = [index for index, size in enumerate(sizes) if size * 11 >= sizes[-1]]
    logs = np.log(np.array([sizes, np.maximum(values, 1e-9)]))[:, last]
    return float(np.polyfit(*logs, 1)[0])


@styled
def draw(curves: list[Curve], path: Path) -> None:
    """Writes the figure as a small PNG."""
    figure = canvas(8.4, 5.6)
    time, memory = figure.subplots(1, 2)
    for index, curve in enumerate(curves):
        pen = {
            "color": POLYP_COLOURS[index % len(POLYP_COLOURS)],
            "marker": MARKERS[index % len(MARKERS)],
            "markersize": 4,
        }
        dash = DASHES[index // len(POLYP_COLOURS)]
        label = f"{curve.name}: time n^{curve.time_exponent:.2f}, memory n^{curve.memory_exponent:.2f}  ({curve.unit})"
        time.plot(curve.sizes, curve.seconds, label=label, linestyle=dash, **pen)
        memory.plot(curve.sizes, np.maximum(curve.memory, 1.0), linestyle=dash, **pen)
    time.set(title="Processor seconds", xlabel="size n")
    memory.set(title="Memory above imports, MiB", xlabel="size n")
    for axes in (time, memory):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.minorticks_off()
    memory.set_ylim(10, 10 ** np.ceil(np.log10(memory.get_ylim()[1])))
    _slopes(time, (1, "n"), (2, "n²"))
    _slopes(memory, (1, "n"))
    for axes in (time, memory):
        axes.xaxis.set_major_formatter(FuncFormatter(_short))
        axes.yaxis.set_major_formatter(FuncFormatter(_short))
    figure.legend(loc="outside lower center", ncols=2, columnspacing=2.0)
    pixels = io.BytesIO()
    figure.savefig(pixels, format="png", dpi=150, facecolor="white", metadata={"Software": None})
    small = Image.open(pixels).convert("RGB").quantize(96)
    with atomic_file(path) as temporary:
        small.save(temporary, format="PNG", optimize=True)


def _short(value: float, _: int) -> str:
    """0.01, 1, 100, 10k, 1M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _slopes(axes: Axes, *powers: tuple[int, str]) -> None:
    """Draws reference lines from the lower left corner."""
    left, right = axes.get_xlim()
    bottom, top = axes.get_ylim()
    for power, name in powers:
        end = min(right, left * (top / bottom) ** (1 / power))
        height = bottom * (end / left) ** power
        axes.plot([left, end], [bottom, height], color=GREY, linewidth=0.9, linestyle=(0, (2, 2)), zorder=0)
        axes.annotate(
            name, (end, height), xytext=(-8, -2), textcoords="offset points", color=GREY, ha="right", va="top"
        )
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
