"""What a dataset folder was asked for with, and whether one that is there already is what is asked for."""

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from polyptrace.config import Crops, Tracks
from polyptrace.core.errors import UserError
from polyptrace.core.files import read_json
from polyptrace.core.reuse import differences, refuse_changes
from polyptrace.data.boxes import Boxes

INFO = "dataset.json"
#: The name, among the hashes of `dataset.json`, of the source's boxes.
SOURCE = "source boxes"
INSTEAD = "repeat what it was made with, give another folder, or remove this one first"


@dataclass(frozen=True)
class Asked:
    """Everything but the boxes and the pictures that decides what a dataset folder holds."""

    tracks: Tracks
    crops: Crops
    skip_bad: bool
    source: dict[str, Any]  # what the command line said of it

    def written(self) -> dict[str, Any]:
        """As it stands in `dataset.json`."""
        settings = {"tracks": asdict(self.tracks), "crops": asdict(self.crops), "skip_bad": self.skip_bad}
        return {"source": self.source, "settings": settings}


def refuse_other_settings(out: Path, asked: Asked) -> None:
    """An error unless `out` is a dataset folder that was made with the same settings; threads do not change it."""
    if not (out / INFO).is_file():
        raise UserError(f"{out}: already exists -> give another folder, or remove it first")
    held = read_json(out / INFO)
    wanted = json.loads(json.dumps(asked.written()))
    changed = differences({"source": held.get("source", {})}, {"source": wanted["source"]})
    changed += differences(held.get("settings", {}), wanted["settings"])
    refuse_changes(f"{out}: already exists, made", changed, INSTEAD)


def refuse_other_boxes(out: Path, boxes: Boxes) -> None:
    """An error unless the dataset folder `out` was made of these boxes, which are in order."""
    if read_json(out / INFO).get("hashes", {}).get(SOURCE) != boxes_hash(boxes):
        raise UserError(
            f"{out}: already exists, made of other boxes than the source gives now, because the source or an option"
            f" that says how to read it has changed -> {INSTEAD}"
        )


def boxes_hash(boxes: Boxes) -> str:
    """SHA-256 of a box table, whatever files and lines its rows were read from."""
    digest = hashlib.sha256()
    for column in fields(boxes):
        if column.name in ("source", "line"):
            continue
        values = getattr(boxes, column.name)
        if values.dtype == np.float64:
            values = np.where(np.isnan(values), np.nan, values)  # of which there are many
        words = values.dtype == np.object_
        digest.update(json.dumps(values.tolist()).encode() if words else np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()
