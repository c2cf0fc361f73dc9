"""python -m benchmarks collect COMPARISON --out FOLDER

Copies the results of a comparison in a form that is small enough for a repository: metrics, bootstrap draws and curves,
without vectors and single predictions. `polyptrace compare --out FOLDER --table-only` writes the same tables from it,
and rows that were measured elsewhere can be collected into the same FOLDER.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from polyptrace.evaluate import Results
from polyptrace.evaluate.results import RESULTS_FILE, Arrays

#: Vectors for the map of tracks, the nearest tracks, and the predictions of the probes.
LARGE = ("plane_vectors", "plane_index", "top", "top_score", "probability")


def main(words: list[str] | None = None) -> None:
    """Copies every row and variant that has results."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks collect", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("comparison", type=Path, help="folder of compare or ablate")
    parser.add_argument("--out", type=Path, required=True, help="folder to add the rows to")
    options = parser.parse_args(words)
    found = sorted(options.comparison.glob(f"*/*/seed*/results/{RESULTS_FILE}"))
    for path in found:
        results = Results.load(path.parent)
        out = options.out / path.parent.relative_to(options.comparison)
        replace(results, arrays=small_arrays(results.arrays)).save(out, overwrite=True)
    print(f"{len(found)} results collected into {options.out}")


def small_arrays(arrays: Arrays) -> Arrays:
    """The arrays that tables need, with numbers in single precision."""
    kept = {name: values for name, values in arrays.items() if name.rpartition("/")[2] not in LARGE}
    return {name: values.astype(np.float32) if values.dtype == np.float64 else values for name, values in kept.items()}
