"""python -m benchmarks collect COMPARISON --out FOLDER

Copies the results of a comparison in a form that is small enough for a repository: metrics, bootstrap draws and curves,
without tracks, vectors and predictions. `polyptrace compare --out FOLDER --table-only` writes the same tables from it,
and rows that were measured elsewhere can be collected into the same FOLDER.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks import command_line
from polyptrace.compare.runner import RECORD
from polyptrace.evaluate import Results
from polyptrace.evaluate.results import RESULTS_FILE, Arrays

CURVES = [f"reid/{name}" for name in ("roc_fpr", "roc_tpr", "pr_recall", "pr_precision", "edges", "same", "different")]


def main(words: list[str] | None = None) -> None:
    """Copies every row, variant and point of a sweep that has results."""
    parser = command_line.parser("collect", __doc__)
    parser.add_argument("comparison", type=Path, help="folder of compare or ablate")
    parser.add_argument("--out", type=Path, required=True, help="folder to add the rows to")
    options = parser.parse_args(words)
    files = sorted(options.comparison.glob(f"**/seed*/results/{RESULTS_FILE}"))
    for path in files:
        results = Results.load(path.parent)
        out = options.out / path.parent.relative_to(options.comparison)
        replace(results, arrays=small_arrays(results.arrays)).save(out, overwrite=True)
        if (record := path.parents[1] / RECORD).is_file():
            shutil.copyfile(record, out.parent / RECORD)
    print(f"{len(files)} results collected into {options.out}")


def small_arrays(arrays: Arrays) -> Arrays:
    """The bootstrap draws and the ReID curves, in single precision."""
    return {name: each.astype(np.float32) for name, each in arrays.items() if "/draws/" in name or name in CURVES}
