"""`polyptrace report RESULTS... --out FOLDER`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import torch
from torch import nn
from typer import Argument, Option

from polyptrace.cli.options import Overwrite, PictureFolders
from polyptrace.core.console import console, echo
from polyptrace.core.errors import UserError
from polyptrace.core.files import refuse_existing
from polyptrace.data import Dataset
from polyptrace.data.dataset import DATASET_FILE, tracklets_hash
from polyptrace.data.identity import join_keys, video_keys
from polyptrace.encoders import load_encoder
from polyptrace.encoders.encoder_folder import ENCODER
from polyptrace.encoders.weights import weights_hash
from polyptrace.evaluate import Results
from polyptrace.figures import figure1, figure2
from polyptrace.report import load_rows, write_report
from polyptrace.report.curves import Run, load_run
from polyptrace.report.page import Block, Paragraph, Plots
from polyptrace.report.ranking import focus_row
from polyptrace.report.write import PAGE_FILE

#: Frames that are encoded for a page at most, without and with a GPU.
MAX_FRAMES, MAX_FRAMES_GPU = 4_000, 100_000


def command(
    results: Annotated[list[Path], Argument(help="Folders written by 'polyptrace evaluate', one per row.")],
    out: Annotated[Path, Option(help="Report folder to write.")],
    data: PictureFolders = None,
    run: Annotated[
        list[Path] | None, Option(help="Training run, for its curves and the paper's Figures 1 and 2. Can be repeated.")
    ] = None,
    show: Annotated[str | None, Option(help="Method compared with others; default: last self-supervised one.")] = None,
    paper: Annotated[bool, Option("--paper", help="Quote the paper's Table 1 below our rows.")] = False,
    title: Annotated[str | None, Option(help="Title of the page.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write tables, figures and an HTML page from results.

    Writes report.html (one self-contained file), the tables as Markdown, LaTeX and HTML, the figures as SVG and PNG,
    and results.json with all values. Results of one method from several training seeds become one row. Bold marks the
    best method and all that a paired test cannot distinguish from it (Holm-adjusted p > 0.05).

    Examples:

      polyptrace report results/ours results/untrained --data data/test --run runs/ours --out report

      polyptrace report results/* --paper --out report
    """
    refuse_existing(out, overwrite, PAGE_FILE)
    rows = load_rows(results)
    focus_row(rows, show)  # an unknown name is an error now, not after the figures
    runs = [load_run(folder) for folder in run or ()]
    datasets = [Dataset.open(path) for path in data or ()]
    for dataset in datasets:
        check_dataset(dataset, rows, runs)
    check_runs(runs, rows)
    with console.status("drawing") as status:
        page = write_report(
            rows,
            out,
            focus=show,
            datasets=datasets,
            runs=runs,
            training_figures=run_figures(runs, datasets),
            paper=paper,
            title=title,
            on_progress=lambda section: status.update(f"drawing: {section}"),
            overwrite=overwrite,
        )
    echo(f"report: {page}")


def run_figures(runs: Sequence[Run], data: Sequence[Dataset]) -> list[Block]:
    """Figures 1 and 2 of the first run of our method whose training data are available."""
    blocks: list[Block] = []
    for run in runs:
        if run.config.train.method != "ours":
            continue
        known = [dataset for dataset in data if _trained_on(dataset, run)]
        if not known and run.data is not None and (run.data / DATASET_FILE).is_file():
            known = [Dataset.open(run.data)]
        if known:
            return [*blocks, *_figures(run, known[0])]
        text = f"Figures 1 and 2 of {run.name} need its training data. Give the dataset with --data."
        blocks.append(Paragraph(text))
    return blocks


def check_dataset(dataset: Dataset, rows: Sequence[Results], runs: Sequence[Run] = ()) -> None:
    """Raises an error if no row was evaluated, and no run was trained, on this dataset."""
    if not any(_evaluated_on(dataset, row) for row in rows) and not any(_trained_on(dataset, run) for run in runs):
        raise UserError(f"--data {dataset.path}: not the data of these results or runs -> give the embedded dataset")


def _evaluated_on(dataset: Dataset, row: Results) -> bool:
    """Compares the hashes of the tracklets or, where none is recorded, the names of the procedures."""
    own = tracklets_hash(dataset.info)
    recorded = [tracklets_hash(one.get("info", {}).get("dataset", {})) for one in row.embeddings]
    if own and recorded and all(recorded):
        return own in recorded
    videos = set(video_keys(dataset.tracklets))
    tables = {task.table for task in row.tasks.values() if f"{task.table}/video" in row.arrays}
    return any(videos & set(join_keys(row.arrays[f"{t}/dataset"], row.arrays[f"{t}/video"])) for t in tables)


def _trained_on(dataset: Dataset, run: Run) -> bool:
    """Compares the hashes of the tracklets or, where none is recorded, the names of the folders."""
    own = tracklets_hash(dataset.info)
    if own and run.data_hash:
        return own == run.data_hash
    return run.data is not None and dataset.path.name == run.data.name


def check_runs(runs: Sequence[Run], results: Sequence[Results]) -> None:
    """Raises an error if a run's encoder computed none of the results. Results that do not record one are accepted."""
    hashes = [str(one.get("info", {}).get("model_hash", "")) for row in results for one in row.embeddings]
    if not hashes or not all(hashes):
        return
    for run in runs:
        encoder = _encoder(run.folder)
        if encoder is not None and weights_hash(encoder) not in hashes:
            raise UserError(f"--run {run.folder}: its encoder made none of the results -> give the run that made them")


def _figures(run: Run, dataset: Dataset) -> list[Block]:
    settings = run.config.supervision
    tracklets = figure2.training_tracklets(dataset)
    anchor = figure1.illustrative_anchor(tracklets, settings)
    note = ""
    encoder = _encoder(run.folder)
    if encoder is not None:
        frames = int(dataset.tracklets.length[tracklets.index].sum())
        if frames <= (MAX_FRAMES_GPU if torch.cuda.is_available() else MAX_FRAMES):
            tracklets = figure2.add_vectors(tracklets, dataset, encoder)
        else:
            note = f" Shares of the gradient are omitted, because {frames:,} frames would have to be encoded."
    names = ", ".join(dict.fromkeys(dataset.tracklets.dataset[tracklets.index].tolist()))
    data = f"Generated procedures ({names})" if dataset.generated else names
    statistics = figure2.curriculum_statistics(tracklets, settings)
    caption = f"The paper's Figure 2, for {run.name}. {figure2.curriculum_caption(statistics, data)}{note}"
    early, late = (figure1.bag_at(tracklets, settings, anchor, c) for c in (0.0, 1.0))
    bag = figure1.bag_figure(dataset, tracklets, early, late)
    bag_text = f"The paper's Figure 1, for {run.name}. {figure1.bag_caption(dataset, tracklets, early, late)}"
    return [Plots(tuple(figure2.curriculum_figures(statistics)), caption), Plots((bag,), bag_text, wide=True)]


def _encoder(folder: Path) -> nn.Module | None:
    """The encoder of a run; None if the run has not finished."""
    return load_encoder(folder) if (folder / ENCODER).exists() else None
