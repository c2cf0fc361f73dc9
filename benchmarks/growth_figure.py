"""The figure of growth: time and memory of every stage against the size of its input, both axes logarithmic."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from polyptrace.files import whole_file
from polyptrace.report.style import GREY, LESIONS, SHAPES, canvas, finished, styled


@dataclass(frozen=True)
class Curve:
    """One stage: sizes, and seconds and MiB at each."""

    name: str
    unit: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    memory: tuple[float, ...]

    @property
    def time_exponent(self) -> float:
        """Of the size, over the last decade."""
        return exponent(self.sizes, self.seconds)

    @property
    def memory_exponent(self) -> float:
        """Of the size, over the last decade."""
        return exponent(self.sizes, self.memory)


def exponent(sizes: tuple[int, ...], values: tuple[float, ...]) -> float:
    """The slope of a straight line through the points of the last decade, both axes logarithmic."""
    last = [place for place, size in enumerate(sizes) if size * 11 >= sizes[-1]]
    logs = np.log(np.array([sizes, np.maximum(values, 1e-9)]))[:, last]
    return float(np.polyfit(*logs, 1)[0])


@styled
def draw(curves: list[Curve], path: Path) -> None:
    """Writes the figure as PNG."""
    figure = canvas(9.6, 4.4)
    time, memory = figure.subplots(1, 2)
    for place, curve in enumerate(curves):
        pen = {"color": LESIONS[place % len(LESIONS)], "marker": SHAPES[place % len(SHAPES)], "markersize": 3.5}
        label = f"{curve.name} ({curve.unit})  n^{curve.time_exponent:.2f}, n^{curve.memory_exponent:.2f}"
        time.plot(curve.sizes, curve.seconds, label=label, **pen)
        memory.plot(curve.sizes, np.maximum(curve.memory, 0.1), **pen)
    time.set(title="Processor seconds", xlabel="size n")
    memory.set(title="Memory beyond imports, MiB", xlabel="size n")
    for axes in (time, memory):
        axes.set_xscale("log")
        axes.set_yscale("log")
    _slopes(time)
    title = "stage (what n counts)  time, memory"
    figure.legend(loc="outside right upper", title=title, alignment="left", title_fontsize=8)
    drawing = finished(figure, path.stem, "Time and memory against size")
    with whole_file(path) as temporary:
        temporary.write_bytes(drawing.png)


def _slopes(axes: Axes) -> None:
    """Two straight lines to compare with, n and n²."""
    left, right = axes.get_xlim()
    bottom, top = axes.get_ylim()
    for power, name in ((1, "n"), (2, "n²")):
        size = np.array([left, min(right, left * (top / bottom) ** (1 / power))])
        axes.plot(size, bottom * (size / left) ** power, color=GREY, linewidth=0.8, linestyle=(0, (2, 2)), zorder=0)
        axes.annotate(name, (size[1], bottom * (size[1] / left) ** power), color=GREY, ha="right", va="top", fontsize=8)
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
