"""All stages in a few minutes on two CPU cores: `make demo`, or `python -m polyptrace.demo FOLDER`.

Generates procedures, trains the default encoder further on some of them without labels, evaluates it on others, and
compares it with the default encoder itself, an untrained one and the colour baseline. Every command is printed before
it runs. Completed steps are skipped, so an interrupted demo resumes.
"""

import shlex
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from rich.markup import escape

from polyptrace.cli import main as polyptrace
from polyptrace.core.console import console, notify

SYNTH = "--preset small --seed 0"
PREPARE = "--crops.size 112"
TRAIN = "--train.epochs 1 --train.threads 2 --optimiser.lr 3e-5 --supervision.bags-per-batch 6"
UNTRAINED = "--train.epochs 0 --encoder.backbone regnetx_002 --encoder.weights none"


#: The output of a step, and its command line.
Step = tuple[Path, str]


def steps(folder: Path) -> list[Step]:
    """All steps, in order."""
    generated, train, test = folder / "generated", folder / "data/train", folder / "data/test"
    rows = {
        "colour-grid": ("colour-grid", "--name 'Colour grid' --group Baseline"),
        "untrained": (f"{folder}/untrained", "--name Untrained --group Baseline"),
        "default": ("default", "--name 'Default encoder' --group Self-supervised"),
        "ours": (f"{folder}/run", "--name 'Ours, trained further' --group Self-supervised"),
    }
    lines = [
        (generated, f"synth {generated} {SYNTH} --contact-sheet"),
        (train, f"prepare coco {generated} --split train --out {train} {PREPARE}"),
        (test, f"prepare coco {generated} --split test --out {test} {PREPARE}"),
        (folder / "untrained/encoder", f"train ours --data {train} --out {folder}/untrained {UNTRAINED}"),
        (folder / "run/encoder", f"train ours --data {train} --out {folder}/run --init-from default {TRAIN}"),
    ]
    for name, (encoder, row) in rows.items():
        vectors, row_results = folder / "embeddings" / name, folder / "results" / name
        lines.append((vectors, f"embed {encoder} --data {test} --out {vectors}"))
        lines.append((row_results, f"evaluate --embeddings {vectors} --out {row_results} {row}"))
    results = " ".join(str(folder / "results" / name) for name in rows)
    sources = f"--data {test} --data {train} --run {folder}/run"
    vectors = folder / "embeddings/ours"
    lines.append((folder / "lesions", f"lesions {vectors} --data {test} --out {folder}/lesions"))
    lines.append((folder / "report", f"report {results} {sources} --out {folder}/report"))
    return lines


def run(wanted: Iterable[Step]) -> None:
    """Runs every step whose output does not exist."""
    for output, line in wanted:
        if output.exists():
            notify(f"already done: polyptrace {line}", style="dim")
            continue
        notify(f"\n$ polyptrace {line}", style="bold")
        try:
            polyptrace(shlex.split(line))
        except SystemExit as end:
            if end.code:
                raise


def main() -> None:
    """Runs the demo, and prints the path of the report."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo")
    start = time.monotonic()
    run(steps(folder))
    pages = [escape(str((folder / name).resolve())) for name in ("report/report.html", "lesions/lesions.html")]
    listed = f"Report: [bold]{pages[0]}[/] Lesions: [bold]{pages[1]}[/]"
    console.print(f"\n{time.monotonic() - start:.0f} s. {listed}", highlight=False, soft_wrap=True)
    explore = f"{Path(sys.executable).parent}/polyptrace explore {folder}/embeddings/ours --data {folder}/data/test"
    console.print(f"In the browser: [bold]{escape(explore)}[/]", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
