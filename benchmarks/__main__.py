"""python -m benchmarks [NAMES] [--all] [--quick] [--out benchmarks/results] [--write]

Without names: the list of benchmarks. Each prints its figures beside the plain way of doing the same work and beside
the limit, in the same run, and writes them with the machine, the versions and the command as JSON: NAME.json, or
NAME-gpu.json where there is a GPU. --write puts the tables of all JSON files into docs/performance.md, between the
lines `<!-- NAME -->` and `<!-- end -->`, and all rows that have a target into `targets`; the prose around them stays.

`python -m benchmarks regime --help` calibrates the generated procedures.
"""

import argparse
import datetime
import importlib
import os
import platform
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.result import Result
from polyptrace.core.files import atomic_file, provenance, read_json, write_json

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/performance.md"


@dataclass(frozen=True)
class Benchmark:
    """What a module measures, and whether it needs a GPU."""

    line: str
    needs_gpu: bool = False


BENCHMARKS = {
    "linking": Benchmark("boxes to tracks and tracklets, beside a loop over boxes"),
    "bags": Benchmark("an epoch's bags, beside an N x N matrix of distances"),
    "parsing": Benchmark("REAL-Colon's XML files, beside ElementTree and beside opening files"),
    "crops": Benchmark("pictures to crops, beside PIL"),
    "nvjpeg": Benchmark("pictures to crops with nvJPEG, beside all cores", True),
    "evaluation": Benchmark("retrieval, ReID, their bootstrap and the probe, beside scikit-learn on full matrices"),
    "synth": Benchmark("generated procedures: frames drawn and written a second"),
    "growth": Benchmark("time and memory of every stage against size, over two decades; draws the figure"),
    "memory": Benchmark("prepare, train, embed and evaluate on more data than the memory they may have"),
    "coverage": Benchmark("coverage of the 95 % intervals and type I error of the tests, by simulation (no speed)"),
    "embedding": Benchmark("a dataset to vectors, beside tracklet by tracklet and the forward pass alone", True),
    "latency": Benchmark("one tracklet of new frames, and one more frame of a running track"),
    "train_step": Benchmark("a training step, beside plain float32, the hand-tuned step and PIL", True),
    "foundation_models": Benchmark("frames per second of the twelve foundation models", True),
}


def main(words: list[str] | None = None) -> None:
    """Lists, measures, writes."""
    words = sys.argv[1:] if words is None else words
    if words[:1] == ["regime"]:  # a calibration with options of its own, not a measurement of speed
        importlib.import_module("benchmarks.regime").main(words[1:])
        return
    options = parse(words)
    names = [name for name in BENCHMARKS if options.all or name in options.names]
    if not names and not options.write:
        print("python -m benchmarks NAME ...\n")
        for name, benchmark in BENCHMARKS.items():
            print(f"  {name:18} {benchmark.line}{'; needs a GPU' if benchmark.needs_gpu else ''}")
        return
    for name in names:
        if BENCHMARKS[name].needs_gpu and not torch.cuda.is_available():
            print(f"{name}: skipped, it needs a GPU and torch sees none here\n")
            continue
        print(f"{name}: {BENCHMARKS[name].line}\n", flush=True)
        result: Result = importlib.import_module(f"benchmarks.{name}").measure(options.quick)
        print(f"{result.text()}\n", flush=True)
        suffix = "-gpu" if torch.cuda.is_available() else ""
        command = f"python -m benchmarks {name}{' --quick' if options.quick else ''}"
        write_json(options.out / f"{name}{suffix}.json", result.to_json() | conditions(command))
    if options.write:
        write_page(options.page, options.out)


def parse(words: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="what to measure")
    parser.add_argument("--all", action="store_true", help="everything that this machine can measure")
    parser.add_argument("--quick", action="store_true", help="small sizes: whether it runs, not what it reaches")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results", help="folder of the JSON files")
    parser.add_argument("--write", action="store_true", help="put the tables into the page")
    parser.add_argument("--page", type=Path, default=PAGE, help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(f"no benchmark {', '.join(sorted(unknown))} -> one of {', '.join(BENCHMARKS)}")
    return options


def conditions(command: str) -> dict[str, Any]:
    """When, with what and on what something was measured."""
    made_by = provenance()
    return {
        "command": command,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "hardware": hardware(),
        "versions": {"python": made_by["python"], "polyptrace": made_by["polyptrace"], **made_by["packages"]},
    }


def hardware() -> str:
    """Processor, cores that this process may use, memory, and the GPU."""
    info = Path("/proc/cpuinfo")
    name = re.search(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else None
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    parts = [f"{name[1].strip() if name else platform.machine()}", f"{len(os.sched_getaffinity(0))} cores"]
    gpu = [torch.cuda.get_device_name()] if torch.cuda.is_available() else []
    return ", ".join([*parts, f"{memory:.0f} GiB", *gpu])


def write_page(page: Path, results: Path) -> None:
    """Replaces what stands between the markers of every JSON file, and those of all targets; no place is said."""
    text = page.read_text(encoding="utf-8")
    aimed = []
    for path in sorted(results.glob("*.json")):
        content = read_json(path)
        result, versions = Result.from_json(content), content["versions"]
        made = (
            f"`{content['command']}`, {content['date']}; {content['hardware']}; "
            f"torch {versions['torch']}, NumPy {versions['numpy']}."
        )
        text, found = _filled(text, path.stem, f"{result.markdown()}\n\n{made}")
        if not found:
            print(f"{path.name}: {page.name} has no place for it -> add <!-- {path.stem} --> and <!-- end -->")
        aimed += [replace(row, what=f"{path.stem}: {row.what}") for row in result.rows if row.target]
    text, _ = _filled(text, "targets", Result("targets", tuple(aimed)).markdown())
    with atomic_file(page) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _filled(text: str, name: str, content: str) -> tuple[str, bool]:
    """The text with `content` between the markers of `name`, and whether it has them."""
    block = f"<!-- {name} -->\n\n{content}\n\n<!-- end -->"
    pattern = rf"<!-- {re.escape(name)} -->.*?<!-- end -->"
    text, count = re.subn(pattern, lambda _: block, text, count=1, flags=re.DOTALL)
    return text, count == 1


if __name__ == "__main__":
    main()
