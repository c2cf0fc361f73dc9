"""Figures 1 and 2 of a training run, for its report: with its data, its settings and its encoder."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from polyptrace.core.errors import UserError
from polyptrace.data import Dataset
from polyptrace.encoders import load_encoder
from polyptrace.encoders.weights import weights_hash
from polyptrace.evaluate import Results
from polyptrace.figures.bags import bag_at, bag_caption, bag_figure, illustrative_anchor
from polyptrace.figures.curriculum import curriculum_caption, curriculum_figures, curriculum_statistics
from polyptrace.figures.tracklets import add_vectors, training_tracklets
from polyptrace.report.page import Block, Paragraph, Plots
from polyptrace.report.runs import Run

#: Frames that are encoded for a page at most, without and with a GPU.
MAX_FRAMES, MAX_FRAMES_GPU = 4_000, 100_000


def run_figures(runs: Sequence[Run], data: Sequence[Dataset]) -> list[Block]:
    """Figures 1 and 2 of the first run of our method whose training data are available."""
    blocks: list[Block] = []
    for run in runs:
        if run.config.train.method != "ours":
            continue
        dataset = _training_data(run, data)
        if dataset is not None:
            return [*blocks, *_figures(run, dataset)]
        text = f"Figures 1 and 2 of {run.name} need its training data. Give the dataset with --data."
        blocks.append(Paragraph(text))
    return blocks


def check_runs(runs: Sequence[Run], results: Sequence[Results]) -> None:
    """Raises an error if a run's encoder computed none of the results. Results that do not record one are accepted."""
    hashes = [str(one.get("info", {}).get("model_hash", "")) for row in results for one in row.embeddings]
    if not hashes or not all(hashes):
        return
    for run in runs:
        encoder = _encoder(run.folder)
        if encoder is not None and weights_hash(encoder) not in hashes:
            raise UserError(
                f"--run {run.folder}: none of the results was computed with this run's encoder"
                " -> give the run that the vectors were embedded with"
            )


def _figures(run: Run, dataset: Dataset) -> list[Block]:
    settings = run.config.supervision
    tracklets = training_tracklets(dataset)
    anchor = illustrative_anchor(tracklets, settings)
    note = ""
    encoder = _encoder(run.folder)
    if encoder is not None:
        frames = int(dataset.tracklets.length[tracklets.index].sum())
        if frames <= (MAX_FRAMES_GPU if torch.cuda.is_available() else MAX_FRAMES):
            tracklets = add_vectors(tracklets, dataset, encoder)
        else:
            note = f" Shares of the gradient are omitted, because {frames:,} frames would have to be encoded."
    names = ", ".join(dict.fromkeys(dataset.tracklets.dataset[tracklets.index].tolist()))
    data = f"Generated procedures ({names})" if dataset.generated else names
    statistics = curriculum_statistics(tracklets, settings)
    caption = f"The paper's Figure 2, for {run.name}. {curriculum_caption(statistics, data)}{note}"
    early, late = (bag_at(tracklets, settings, anchor, c) for c in (0.0, 1.0))
    bag = bag_figure(dataset, tracklets, early, late)
    return [
        Plots(tuple(curriculum_figures(statistics)), caption),
        Plots(
            (bag,), f"The paper's Figure 1, for {run.name}. {bag_caption(dataset, tracklets, early, late)}", wide=True
        ),
    ]


def _training_data(run: Run, data: Sequence[Dataset]) -> Dataset | None:
    """The dataset a run was trained on: one of `data`, by hash or by name, or the recorded path if it exists."""
    for dataset in data:
        own = dataset.info.get("hashes", {}).get("tracklets.parquet")
        if own and run.data_hash:
            if own == run.data_hash:
                return dataset
        elif run.data is not None and dataset.path.name == run.data.name:
            return dataset
    if run.data is None or not (run.data / "dataset.json").is_file():
        return None
    return Dataset.open(run.data)


def _encoder(folder: Path) -> nn.Module | None:
    """The encoder of a run; None if the run has not finished."""
    try:
        return load_encoder(folder)
    except UserError:
        return None
