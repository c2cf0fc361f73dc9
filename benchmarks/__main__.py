"""python -m benchmarks [NAMES] [--all] [--quick] [--out benchmarks/results] [--write]

Without names, lists the benchmarks. A benchmark measures our implementation, a plain implementation and, if possible,
an upper limit in the same run, prints them, and writes them with hardware, versions and command to NAME.json, or to
NAME-gpu.json on a machine with a GPU. --write rewrites the table in docs/performance.md from all JSON files: each row
that has a target or a comparison.

`python -m benchmarks regime --help` calibrates the generated procedures, `realism` compares them with real ones,
`lesions` measures how well lesions are counted, `detector` the same with a detector's boxes, `annotator` how many
answers `explore` needs, `clips` encoders on real clips, `demo_seeds` the demo with five training seeds,
`head_only` compares settings of training on stored features, `default_encoder` trains the default encoder, and
`collect` copies the results of a comparison in a small form.
"""

import argparse
import datetime
import importlib
import os
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.result import PAGE_HEADER, Cells, Result, markdown_table
from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_file, provenance, read_json, write_json

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/performance.md"


@dataclass(frozen=True)
class Benchmark:
    """A line about what a module measures, and whether it needs a GPU."""

    line: str
    needs_gpu: bool = False


BENCHMARKS = {
    "linking": Benchmark("boxes to tracks and tracklets, compared with a loop over boxes"),
    "bags": Benchmark("the bags of an epoch, compared with an N x N matrix of distances"),
    "linking_detections": Benchmark("a detector's boxes to tracks, compared with ByteTrack and OC-SORT"),
    "video": Benchmark("a 1080p recording to vectors: overhead beside decoder and detector, memory, speed"),
    "parsing": Benchmark("REAL-Colon's XML files, compared with ElementTree and with opening the files"),
    "crops": Benchmark("pictures to crops, compared with PIL"),
    "nvjpeg": Benchmark("pictures to crops with nvJPEG, compared with all cores", True),
    "evaluation": Benchmark("retrieval, ReID, their bootstrap, the probe and lesions, compared with scikit-learn"),
    "synth": Benchmark("generated procedures: frames rendered and written per second"),
    "growth": Benchmark("time and memory of every stage against input size, and the figure"),
    "memory": Benchmark("prepare, train, embed and evaluate on data larger than their memory limit"),
    "coverage": Benchmark("coverage of the 95 % intervals and type I error of the tests, by simulation"),
    "embedding": Benchmark(
        "a dataset to vectors, compared with one tracklet at a time and with the forward alone", True
    ),
    "latency": Benchmark("the vector of a new track, and of a running track after one more frame"),
    "explore": Benchmark("the browser page: start, first paint, candidates, answers, scrolling, memory"),
    "onnx": Benchmark("exported encoders without torch: loading and vectors, compared with eager torch"),
    "train_step": Benchmark("a training step, compared with plain float32 and a hand-tuned step", True),
    "decoding_loop": Benchmark("a training step, compared with loops that decode JPEGs in every epoch", True),
    "foundation_models": Benchmark("frames per second of the twelve foundation models", True),
}

#: Modules with their own command line, results and tables.
OWN_OPTIONS = (
    *("regime", "realism", "lesions", "detector", "annotator"),
    *("clips", "demo_seeds", "head_only", "default_encoder", "collect"),
)


def main(words: list[str] | None = None) -> None:
    """Lists the benchmarks, or runs some of them and writes the page."""
    words = sys.argv[1:] if words is None else words
    if words and words[0] in OWN_OPTIONS:
        importlib.import_module(f"benchmarks.{words[0]}").main(words[1:])
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
            print(f"{name}: skipped, because it needs a GPU\n")
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
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to run")
    parser.add_argument("--all", action="store_true", help="all benchmarks that this machine can run")
    parser.add_argument("--quick", action="store_true", help="small sizes, to check that it runs")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results", help="folder of the JSON files")
    parser.add_argument("--write", action="store_true", help="rewrite the table of the page")
    parser.add_argument("--page", type=Path, default=PAGE, help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(f"no benchmark {', '.join(sorted(unknown))} -> one of {', '.join(BENCHMARKS)}")
    return options


def conditions(command: str) -> dict[str, Any]:
    """The command, date, hardware and versions of a measurement."""
    made_by = provenance()
    return {
        "command": command,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "hardware": hardware(),
        "versions": {"python": made_by["python"], "polyptrace": made_by["polyptrace"], **made_by["packages"]},
    }


def hardware() -> str:
    """Processor, usable cores, memory and GPU."""
    info = Path("/proc/cpuinfo")
    name = re.search(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else None
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    parts = [f"{name[1].strip() if name else platform.machine()}", f"{len(os.sched_getaffinity(0))} cores"]
    gpu = [torch.cuda.get_device_name()] if torch.cuda.is_available() else []
    return ", ".join([*parts, f"{memory:.0f} GiB", *gpu])


def write_page(page: Path, results: Path) -> None:
    """Replaces the table of the page, between `<!-- table -->` and `<!-- end -->`."""
    table, machines = page_table([read_json(path) for path in sorted(results.glob("*.json"))])
    block = "\n\n".join(["<!-- table -->", markdown_table(table), *machines, "<!-- end -->"])
    text = page.read_text(encoding="utf-8")
    text, count = re.subn(r"<!-- table -->.*?<!-- end -->", lambda _: block, text, count=1, flags=re.DOTALL)
    if not count:
        raise UserError(f"{page}: no place for the table -> add the lines <!-- table --> and <!-- end -->")
    with atomic_file(page) as temporary:
        temporary.write_text(text, encoding="utf-8")


def page_table(contents: list[dict[str, Any]]) -> tuple[list[Cells], list[str]]:
    """The rows that have a target or a ratio, in the order of BENCHMARKS; and one line per machine.

    Of the growth exponents only those that miss their target: the others are in the figure.
    """
    contents = sorted(contents, key=lambda content: list(BENCHMARKS).index(content["name"]))
    table, machines = [PAGE_HEADER], list[str]()
    for content in contents:
        rows = [row for row in Result.from_json(content).rows if row.target or row.ratio is not None]
        if content["name"] == "growth":
            rows = [row for row in rows if not row.met]
        machine = content["hardware"].rpartition("NVIDIA ")[2] if "NVIDIA" in content["hardware"] else "CPU"
        measured = f"{content['date']}, {machine}"
        table += [(*row.page_cells(), f"`{content['name']}`", measured) for row in rows]
        if rows:
            machines.append(f"{machine}: {content['hardware']}.")
    return table, list(dict.fromkeys(machines))


if __name__ == "__main__":
    main()
