"""`polyptrace lesions VECTORS --data DATASET --out LESIONS`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from rich import box
from rich.markup import escape
from rich.table import Column, Table
from typer import Option

from polyptrace.cli.options import Out, Overwrite, PictureFolders, SameFile, VectorsFile
from polyptrace.core.console import echo, output, suggest
from polyptrace.core.errors import UserError, warn
from polyptrace.core.files import atomic_folder, provenance, refuse_existing, write_csv, write_json
from polyptrace.embed import Embeddings, open_datasets
from polyptrace.film_strips import TrackImages
from polyptrace.lesions import SAME_FILE, ProcedureLesions, SameModel, lesions, same_model
from polyptrace.report.lesion_page import lesion_list, lesion_page, lesion_table, track_table
from polyptrace.report.page import write_page

#: The file that marks a folder of this command.
MARK = "lesions.csv"
TRACKS_FILE, PAGE_FILE = "tracks.csv", "lesions.html"


def command(
    vectors: VectorsFile,
    out: Out,
    data: PictureFolders = None,
    labels: Annotated[bool, Option("--labels", help="Use the known polyp labels to fit the probability.")] = False,
    same: SameFile = None,
    refit: Annotated[
        bool, Option("--refit", help="Fit the probability again instead of using same.json beside the vectors.")
    ] = False,
    overwrite: Overwrite = False,
) -> None:
    """List the lesions of each procedure: which tracks belong together, and how certain that is.

    No labels are needed. The probability that two tracks show the same lesion is fitted to the vectors, or read from
    the file of --same. It is stored beside the vectors (same.json), where 'explore' and 'find' use it. The next run
    uses it again, unless --refit or --same is given, or --labels and it was fitted without labels. The output is
    lesions.csv, tracks.csv, lesions.json, same.json and the page lesions.html.

    Examples:

      polyptrace lesions vectors/mine --data data/mine --out lesions/mine

      polyptrace lesions vectors/one --same vectors/many/same.json --data data/one --out lesions/one
    """
    if same is not None and (labels or refit):
        raise UserError("--same: the given model is not fitted again -> leave out --labels and --refit")
    write_lesions(vectors, out, data or (), labels=labels, same=same, refit=refit, overwrite=overwrite)


def write_lesions(
    vectors: Path,
    out: Path,
    data: Sequence[Path],
    *,
    labels: bool = False,
    same: Path | None = None,
    refit: bool = False,
    overwrite: bool = False,
    remarks: Sequence[str] = (),
) -> None:
    """Finds the lesions, writes the folder and prints a table; `remarks` are shown at the top of the page."""
    refuse_existing(out, overwrite, MARK)
    tracks = Embeddings.load(vectors).whole_tracks(str(vectors))
    datasets = open_datasets(data, tracks)
    model, source = same_model(vectors, tracks, path=same, labels=labels, refit=refit)
    if labels and not model.labelled_pairs:
        raise UserError(
            f"--labels: {vectors} has no two tracks of one procedure with polyp labels -> leave it out, or prepare the"
            " dataset with labels (answers of 'explore': 'polyptrace prepare --answers') and embed it again"
        )
    procedures = lesions(tracks, same=model)
    images = TrackImages.of(datasets)
    described = [lesion_list(tracks, procedure, images) for procedure in procedures]
    page = lesion_page(tracks, procedures, described, model, images, f"from {vectors}", remarks)
    with atomic_folder(out, overwrite=overwrite, mark=MARK) as folder:
        write_csv(folder / MARK, lesion_table(tracks, procedures, described))
        write_csv(folder / TRACKS_FILE, track_table(tracks, procedures, images))
        write_json(folder / "lesions.json", _summary(procedures, vectors))
        model.save(folder / SAME_FILE)
        write_page(folder / PAGE_FILE, page)
        writable = vectors.is_dir() and os.access(vectors, os.W_OK)
        if writable and source != vectors / SAME_FILE:
            model.save(vectors / SAME_FILE)  # before the folder is complete: a rerun would refuse to replace it
        elif not writable and (same is not None or labels):
            warn(
                f"{vectors}: {SAME_FILE} cannot be stored there, so 'explore' and 'find' fit their own, without labels"
            )
    _print(procedures, model, source)
    if model.labelled_pairs and source == vectors / SAME_FILE and not labels and same is None:
        echo(f"{source} was fitted with labels -> 'polyptrace lesions --refit' fits it without labels")
    echo(f"written: {out / PAGE_FILE}, {out / MARK}, {out / TRACKS_FILE}")
    if data:
        suggest("explore", vectors, *(word for path in data for word in ("--data", path)))


def _summary(procedures: list[ProcedureLesions], vectors: Path) -> dict[str, Any]:
    """The content of lesions.json."""
    counts = [
        {
            "dataset": procedure.dataset,
            "video": procedure.video,
            "tracks": len(procedure.rows),
            "lesions": procedure.count,
            "low": procedure.interval[0],
            "high": procedure.interval[1],
            "distribution": {
                str(number): round(float(p), 6) for number, p in enumerate(procedure.distribution) if p >= 1e-6
            },
        }
        for procedure in procedures
    ]
    return {"format": 1, "vectors": str(vectors), "procedures": counts, "made_by": provenance()}


def _print(procedures: list[ProcedureLesions], model: SameModel, source: Path | None) -> None:
    numbers = (Column(name, justify="right") for name in ("tracks", "lesions", "90 % interval"))
    table = Table("procedure", *numbers, box=box.SIMPLE_HEAD)
    for procedure in procedures:
        low, high = procedure.interval
        table.add_row(escape(procedure.video), str(len(procedure.rows)), str(procedure.count), f"{low}–{high}")
    output.print(table)
    for assumption in model.assumptions:
        echo(f"assumed: {assumption}")
    echo(model.described(source))
