"""The files that polyptrace writes, each with its reader. A new kind of file is one entry in `own_targets`."""

import io
import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from campaigns.commands import COMMANDS, new_case, run
from campaigns.fuzz import Target
from polyptrace.cli.check import print_dataset
from polyptrace.compare.rates import read_rates
from polyptrace.compare.rows import ROWS
from polyptrace.compare.runner import begin_trial, load_trial
from polyptrace.compare.trial import Datasets, Shared, make_trial
from polyptrace.config import Crops, read_config
from polyptrace.data import Dataset
from polyptrace.data.crops.field import IDENTITY, read_field
from polyptrace.data.crops.filling import fill_store
from polyptrace.data.crops.store import PartialStore
from polyptrace.detect.recording import Detections
from polyptrace.detect.unfinished import UnfinishedDetections
from polyptrace.embed import Embeddings, OnnxEncoder
from polyptrace.encoders import TrackletEncoder, load_encoder
from polyptrace.encoders.weights import read_tensors
from polyptrace.evaluate import Results
from polyptrace.explore.journal import Journal
from polyptrace.lesions import SameModel
from polyptrace.report.curves import load_run
from polyptrace.train.log import discard_after
from polyptrace.train.run_folder import check_run, load_checkpoint, thread_note

RATES = {
    "criterion": "mAP",
    "rows": {"ours": {"tried": {"1e-05": 0.1, "0.0001": None}, "rate": 1e-5, "at_the_end": True}},
    "failed": {"search/ours/lr0.0001": "the loss is not finite"},
}
EVENT = {"time": "t", "who": "a", "video": "v"}
EVENTS = (
    {"format": 1},
    {"id": 1, **EVENT, "kind": "answer", "items": [[1, 2, 3], [4, 5, 6]], "answer": "same"},
    {"id": 2, **EVENT, "kind": "note", "items": [[1, 2, 3]], "text": "flat"},
    {"id": 3, **EVENT, "kind": "undo", "event": 2},
)


def own_targets(inputs: Path, folder: Path) -> dict[str, Target]:
    """One target per kind of file, from the inputs of the commands."""
    lesions, datasets = _output("lesions", inputs, folder), Datasets(inputs / "data", (inputs / "data",))
    exported = folder / "exported"
    ended = run(["export", str(inputs / "run"), "--to", "onnx", "--out", str(exported)])
    assert ended.code == 0, ended.text
    trial = make_trial(ROWS["tpc"], 0, "rows/tpc/seed0", datasets, Shared(folder / "compared"))
    begin_trial(trial)
    dataset, run_files = _files(inputs / "data"), _files(inputs / "run")
    checkpoint = max(name for name in run_files if name.startswith("checkpoints/"))
    detected = _output("detect", inputs, folder) / "out/it"
    field = (detected / "video.field.png").read_bytes()
    identity = Image.open(detected / "video.field.png").info[IDENTITY]
    journal = "".join(json.dumps(event) + "\n" for event in EVENTS).encode()
    config, data = read_config(inputs / "run/config.toml"), Dataset.open(inputs / "data")

    def read_run(path: Path) -> None:
        check_run(path, config, data.label_free(), None)
        thread_note(path, "cpu")
        load_run(path)
        discard_after(path, 1)

    def read_checkpoint(path: Path) -> None:
        encoder = load_encoder(inputs / "run")
        load_checkpoint(path / checkpoint, encoder, torch.optim.AdamW(encoder.parameters()))

    def resume(path: Path) -> None:
        boxes = data.boxes()
        store = PartialStore(path, boxes, inputs / "generated", Crops(size=32, workers=1), fill_store)
        rows = data.box_of_crop()[:16]
        assert not store.cut(rows)
        store.finish(rows)
        assert np.load(path / "crops.npy").shape == (16, 32, 32, 3)

    partial = folder / "partial"
    PartialStore(partial, data.boxes(), inputs / "generated", Crops(size=32, workers=1), fill_store).cut(
        data.box_of_crop()[:16]
    )
    with UnfinishedDetections.open(folder / "v.partial", {"min_score": 0.1}) as unfinished:
        unfinished.add(3, np.array([[20.0, 20.0, 16.0, 16.0, 0.9]]))
        unfinished.state.frames = 4
    vectors = {"theirs.npz": _npz(inputs), "theirs.parquet": (inputs / "vectors/embeddings.parquet").read_bytes()}
    return {
        "dataset": Target(_read_dataset, dataset, ("dataset.json", "tracklets.parquet", "boxes.parquet", "crops.npy")),
        "partial store": Target(resume, _files(partial), tuple(_files(partial))),
        "run": Target(read_run, run_files, ("config.toml", "environment.json", "metrics.jsonl")),
        "checkpoint": Target(read_checkpoint, {checkpoint: run_files[checkpoint]}, (checkpoint,)),
        "encoder": Target(load_encoder, _files(inputs / "run/encoder"), ("config.json", "model.safetensors")),
        "detections": Target(
            lambda path: Detections.load(path / "video.txt"),
            {"video.json": (detected / "video.json").read_bytes()},
            ("video.json",),
        ),
        "field": Target(
            lambda path: read_field(path / "video.field.png", identity),
            {"video.field.png": field},
            ("video.field.png",),
        ),
        "unfinished detections": Target(
            _read_unfinished, {"v.partial": (folder / "v.partial").read_bytes()}, ("v.partial",)
        ),
        "export": Target(_read_export, _files(exported), ("export.json", "features.onnx", "aggregate.onnx")),
        "vectors": Target(Embeddings.load, _files(inputs / "vectors"), ("embeddings.parquet", "embeddings.json")),
        "other vectors": Target(lambda path: [Embeddings.load(path / name) for name in vectors], vectors, (*vectors,)),
        "results": Target(Results.load, _files(inputs / "results"), ("results.json", "arrays.npz")),
        "same.json": Target(
            lambda path: SameModel.load(path / "same.json"),
            {"same.json": (lesions / "vectors/same.json").read_bytes()},
            ("same.json",),
        ),
        "row.json": Target(
            load_trial,
            {"row.json": (trial.folder / "row.json").read_bytes()},
            ("row.json",),
        ),
        "rates.json": Target(
            lambda path: read_rates(path / "rates.json"), {"rates.json": json.dumps(RATES).encode()}, ("rates.json",)
        ),
        "settings": Target(
            lambda path: read_config(path / "small.toml"),
            {"small.toml": (inputs / "small.toml").read_bytes()},
            ("small.toml",),
        ),
        "weights": Target(_read_weights, _weights(), ("a.pth", "model.safetensors")),
        "authors' checkpoint": Target(
            lambda path: load_encoder(path / "a.ckpt"), {"a.ckpt": _authors_checkpoint()}, ("a.ckpt",)
        ),
        "journal": Target(
            lambda path: Journal.open(path / "answers.jsonl"), {"answers.jsonl": journal}, ("answers.jsonl",)
        ),
    }


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _output(name: str, inputs: Path, folder: Path) -> Path:
    """The case folder of a command that was run once."""
    case = new_case(folder / f"output-{name}", inputs, None)
    ended = run(COMMANDS[name].words(inputs, case))
    assert ended.code == 0, ended.text
    return case


def _read_dataset(folder: Path) -> None:
    dataset = Dataset.open(folder)
    print_dataset(dataset)
    dataset.boxes()
    dataset.box_of_crop()
    dataset.gather(np.arange(min(4, len(dataset.tracklets))))


def _read_export(folder: Path) -> None:
    OnnxEncoder(folder)([np.zeros((2, 40, 40, 3), np.uint8)])


def _read_unfinished(folder: Path) -> None:
    with UnfinishedDetections.open(folder / "v.partial", {"min_score": 0.1}) as unfinished:
        unfinished.state.skip(5, "black")


def _npz(inputs: Path) -> bytes:
    table = Embeddings.load(inputs / "vectors")
    texts = {name: getattr(table, name).astype(str) for name in ("video", "polyp", "unit")}
    np.savez(buffer := io.BytesIO(), vectors=table.vectors, track=table.track, position=table.position, **texts)
    return buffer.getvalue()


def _weights() -> dict[str, bytes]:
    from safetensors.torch import save

    tensors = {"a.weight": torch.arange(6.0).reshape(2, 3), "a.bias": torch.ones(2)}
    torch.save({"model": tensors, "epoch": 3, "args": {"lr": 0.1}}, buffer := io.BytesIO())
    return {"a.pth": buffer.getvalue(), "model.safetensors": save(tensors)}


def _read_weights(folder: Path) -> None:
    for name in ("a.pth", "model.safetensors"):
        read_tensors(folder / name)


def _authors_checkpoint() -> bytes:
    encoder = TrackletEncoder("test_resnet", width=8, heads=2, layers=1, feed_forward=8, projection=4)
    names = {"backbone.": "mve.sfe.backbone.", "adapter.": "mve.adapter.", "layers.": "mve.encoder.layers."}
    tensors = {}
    for name, tensor in encoder.state_dict().items():
        prefix = next((prefix for prefix in names if name.startswith(prefix)), "")
        theirs = "mve.cls_token" if name == "token" else names.get(prefix, "") + name.removeprefix(prefix)
        tensors[theirs] = tensor
    settings = {
        "backbone_arch": "test_resnet", "d_model": 8, "n_layers": 1, "n_heads": 2, "d_feedforward": 8, "dropout": 0.1,
    }  # fmt: skip
    torch.save({"state_dict": tensors, "hyper_parameters": settings, "epoch": 1}, buffer := io.BytesIO())
    return buffer.getvalue()
