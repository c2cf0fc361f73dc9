"""The whole way in a few minutes on two CPU cores: `make demo`, or `python -m polyptrace.demo FOLDER`.

Generates procedures, prepares them, trains without labels on some, and measures on others what was learned, beside the
same encoder untrained and beside colours alone. Every line it runs is printed first and can be typed by hand. What is
already there is not done again: a demo that was stopped goes on.
"""

import shlex
import sys
import time
from pathlib import Path

from polyptrace.cli import main as polyptrace
from polyptrace.core.console import console

SYNTH = "--preset small --seed 0"
PREPARE = "--crops.size 64 --tracks.length 4"
TRAIN = (
    "--encoder.backbone regnetx_002 --encoder.weights none --optimiser.lr 3e-4 --train.epochs 3 --train.threads 2"
    " --supervision.bags_per_batch 6 --supervision.tau_fit share"
)


def steps(folder: Path) -> list[tuple[Path, str]]:
    """(what the step writes, its command line) of each step, in order."""
    generated, train, test = folder / "generated", folder / "data/train", folder / "data/test"
    rows = {
        "colour-grid": ("colour-grid", "--name 'Colour grid' --group Baseline"),
        "untrained": (f"{folder}/untrained", "--name Untrained --group Baseline"),
        "ours": (f"{folder}/run", "--name Ours --group Self-supervised"),
    }
    lines = [
        (generated, f"synth {generated} {SYNTH} --contact-sheet"),
        (train, f"prepare coco {generated} --split train --out {train} {PREPARE}"),
        (test, f"prepare coco {generated} --split test --out {test} {PREPARE}"),
        (folder / "untrained/encoder", f"train ours --data {train} --out {folder}/untrained {TRAIN} --train.epochs 0"),
        (folder / "run/encoder", f"train ours --data {train} --out {folder}/run {TRAIN}"),
    ]
    for name, (encoder, row) in rows.items():
        vectors, results = folder / "embeddings" / name, folder / "results" / name
        lines.append((vectors, f"embed {encoder} --data {test} --out {vectors}"))
        lines.append((results, f"evaluate --embeddings {vectors} --out {results} {row}"))
    measured = " ".join(str(folder / "results" / name) for name in rows)
    pictures = f"--data {test} --data {train} --run {folder}/run"
    lines.append((folder / "report", f"report {measured} {pictures} --out {folder}/report"))
    return lines


def main() -> None:
    """Runs every step whose output is not there yet, and says where the report is."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo")
    begun = time.monotonic()
    for output, line in steps(folder):
        if output.exists():
            console.print(f"[dim]done before: polyptrace {line}[/]", highlight=False, soft_wrap=True)
            continue
        console.print(f"\n[bold]$ polyptrace {line}[/]", highlight=False, soft_wrap=True)
        try:
            polyptrace(shlex.split(line))
        except SystemExit as end:
            if end.code:
                raise
    page = (folder / "report/report.html").resolve()
    console.print(f"\n{time.monotonic() - begun:.0f} s. The report: [bold]{page}[/]", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
