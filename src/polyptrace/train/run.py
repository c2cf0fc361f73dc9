"""A run's folder: what it was started with, how far it is, and whether the same command may go on with it.

config.toml        every setting, resolved
environment.json   versions, data, hardware, each start
metrics.jsonl      one line per step
checkpoints/       the last two
encoder/           the finished encoder
"""

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from polyptrace.config import Config, as_toml, difference, read_config
from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_file, file_hash, provenance, read_json, write_json
from polyptrace.core.reuse import refuse_changes
from polyptrace.data import LabelFree
from polyptrace.train.checkpoint import latest_checkpoint

#: The sections of the settings that training uses.
SECTIONS = ("supervision", "views", "loss", "encoder", "optimiser", "train")

CONFIG, ENVIRONMENT, CHECKPOINTS, ENCODER = "config.toml", "environment.json", "checkpoints", "encoder"


def check_run(out: Path, config: Config, data: LabelFree, init_from: str | None) -> Path | None:
    """The checkpoint to go on from, None for a new run; refuses a folder that another command began."""
    if not (out / CONFIG).exists():
        if out.exists() and any(not _abandoned(path) for path in out.iterdir()):
            raise UserError(f"{out}: holds something else than a run -> give another --out")
        return None
    changed = difference(read_config(out / CONFIG), config, SECTIONS)
    began = read_json(out / ENVIRONMENT)
    if began["data"]["tracklets"] != data_hash(data):
        changed.append(f"data: not the dataset that this run began with ({began['data']['path']})")
    if began["init_from"] != init_from:
        changed.append(f"init-from: {began['init_from']} -> {init_from}")
    refuse_changes(
        f"{out}: this run was begun",
        changed,
        "to go on, start the command it was begun with, or begin a new run from its weights: --out ANOTHER"
        f" --init-from {out}",
    )
    return latest_checkpoint(out / CHECKPOINTS)


def begin_run(
    out: Path, config: Config, data: LabelFree, init_from: str | None, step: int, labels: str, notes: Sequence[str]
) -> None:
    """Writes down what a run is started with; a later start of the same run is added to the list."""
    for abandoned in (*out.glob(".*.partial*"), *(out / CHECKPOINTS).glob(".*")):  # by a start that was killed
        shutil.rmtree(abandoned) if abandoned.is_dir() else abandoned.unlink()
    if (out / CONFIG).exists():
        environment = read_json(out / ENVIRONMENT)
    else:
        environment = {
            "data": {"path": str(data.path), "tracklets": data_hash(data), "source": data.info.get("source", {})},
            "init_from": init_from,
            "labels": labels,
            "starts": [],
        }
    start: dict[str, Any] = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "step": step,
        "threads": torch.get_num_threads(),
        "notes": list(notes),
    }
    environment["starts"].append(start | {"made_by": provenance()})
    write_json(out / ENVIRONMENT, environment)
    with atomic_file(out / CONFIG) as temporary:  # last: with it the run has begun
        temporary.write_text(as_toml(config, SECTIONS), encoding="utf-8")


def _abandoned(path: Path) -> bool:
    """Whether a file is what a start leaves that was killed before its run had begun."""
    return path.name == ENVIRONMENT or (path.name.startswith(".") and ".partial" in path.name)


def thread_note(out: Path, accelerator: str) -> list[str]:
    """What the log says where a run on a CPU goes on with another number of threads than it began with."""
    if accelerator != "cpu" or not (out / CONFIG).exists():
        return []
    before, now = read_json(out / ENVIRONMENT)["starts"][0]["threads"], torch.get_num_threads()
    if before == now:
        return []
    return [f"threads: {now}, the run began with {before}: weights will differ in their last bits (--train.threads)"]


def data_hash(data: LabelFree) -> str:
    """SHA-256 of the table of tracklets, which names a dataset."""
    return str(data.info.get("hashes", {}).get("tracklets.parquet") or file_hash(data.path / "tracklets.parquet"))
