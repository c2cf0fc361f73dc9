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
    base = shlex.quote(str(folder))
    generated, train, test = f"{base}/generated", f"{base}/data/train", f"{base}/data/test"
    rows = {
        "colour-grid": ("colour-grid", "--name 'Colour grid' --group Baseline"),
        "untrained": (f"{base}/untrained", "--name Untrained --group Baseline"),
        "default": ("default", "--name 'Default encoder' --group Self-supervised"),
        "ours": (f"{base}/run", "--name 'Ours, trained further' --group Self-supervised"),
    }
    lines = [
        ("generated", f"synth {generated} {SYNTH} --contact-sheet"),
        ("data/train", f"prepare coco {generated} --split train --out {train} {PREPARE}"),
        ("data/test", f"prepare coco {generated} --split test --out {test} {PREPARE}"),
        ("untrained/encoder", f"train ours --data {train} --out {base}/untrained {UNTRAINED}"),
        ("run/encoder", f"train ours --data {train} --out {base}/run --init-from default {TRAIN}"),
    ]
    for name, (encoder, row) in rows.items():
        vectors, results = f"embeddings/{name}", f"results/{name}"
        lines.append((vectors, f"embed {encoder} --data {test} --out {base}/{vectors}"))
        lines.append((results, f"evaluate --embeddings {base}/{vectors} --out {base}/{results} {row}"))
    all_results = " ".join(f"{base}/results/{name}" for name in rows)
    sources = f"--data {test} --data {train} --run {base}/run"
    lines.append(("lesions", f"lesions {base}/embeddings/ours --data {test} --out {base}/lesions"))
    lines.append(("report", f"report {all_results} {sources} --out {base}/report"))
    return [(folder / output, line) for output, line in lines]


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
    program = str(Path(sys.executable).parent / "polyptrace")
    explore = shlex.join([program, "explore", f"{folder}/embeddings/ours", "--data", f"{folder}/data/test"])
    console.print(f"In the browser: [bold]{escape(explore)}[/]", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
