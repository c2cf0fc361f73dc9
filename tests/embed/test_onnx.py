"""Exported encoders run without torch, and files that are not those of the export are refused."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from campaigns.damage import damaged
from polyptrace.config import Embed
from polyptrace.core.errors import UserError
from polyptrace.core.files import file_hash, read_json, write_json
from polyptrace.data import Dataset
from polyptrace.embed import Embeddings, OnlineEncoder, OnnxEncoder, embed, embed_export
from polyptrace.encoders.encoder import OwnEncoder

BLOCKED = """
import sys
for name in ("torch", "torchvision", "timm", "onnx"):
    sys.modules[name] = None  # importing it is an error
"""
ONLY_NUMPY = """
for name in ("pyarrow", "typer", "rich", "safetensors", "huggingface_hub", "scipy", "sklearn"):
    sys.modules[name] = None
import json
import numpy as np
import polyptrace
encoder = polyptrace.OnnxEncoder(sys.argv[1])
crops = np.random.default_rng(0).integers(0, 256, (5, 24, 24, 3), np.uint8)
track = encoder.track()
steps = [track.add(crop) for crop in crops]
print(json.dumps([encoder([crops])[0].tolist(), steps[-1].tolist()]))
"""
COMMAND = "from polyptrace.cli import main; main()"


def run(code: str, *words: object) -> str:
    done = subprocess.run([sys.executable, "-c", BLOCKED + code, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_vectors_and_running_tracks_need_numpy_and_onnxruntime_only(
    exported: Path, tracklet_encoder: OwnEncoder
) -> None:
    whole, running = json.loads(run(ONLY_NUMPY, exported))
    crops = np.random.default_rng(0).integers(0, 256, (5, 24, 24, 3), np.uint8)
    wanted = OnlineEncoder(tracklet_encoder, Embed(device="cpu")).track().add(crops)
    np.testing.assert_allclose([whole, running], [wanted, wanted], atol=1e-4, rtol=0)


def test_a_dataset_is_embedded_without_torch(
    exported: Path, tracklet_encoder: OwnEncoder, coloured: Dataset, tmp_path: Path
) -> None:
    run(COMMAND, "embed", exported, "--data", coloured.path, "--out", tmp_path / "vectors")
    given, wanted = (
        Embeddings.load(tmp_path / "vectors"),
        embed(tracklet_encoder, coloured, settings=Embed(device="cpu")),
    )
    np.testing.assert_allclose(given.vectors, wanted.vectors, atol=1e-4, rtol=0)
    assert given.polyp.tolist() == wanted.polyp.tolist()
    assert given.info["fingerprint"] == wanted.info["fingerprint"]
    assert given.info["model_hash"] == wanted.info["model_hash"]


def test_a_running_track_forgets_frames_before_the_last_1024(exported: Path) -> None:
    encoder, crops = OnnxEncoder(exported), np.random.default_rng(0).integers(0, 256, (1030, 24, 24, 3), np.uint8)
    track = encoder.track()
    track.add(crops[:1000])
    np.testing.assert_allclose(track.add(crops[1000:]), encoder([crops[6:]])[0], atol=1e-5, rtol=0)
    assert len(track) == 1030


@pytest.mark.parametrize(
    "wrong", [np.zeros((2, 8, 8, 3)), np.zeros((0, 8, 8, 3), np.uint8), np.zeros((8, 8), np.uint8)]
)
def test_a_tracklet_of_another_type_or_shape_is_refused_by_its_index(wrong: np.ndarray, exported: Path) -> None:
    with pytest.raises(
        UserError, match=r"tracklets\[1\]: .* -> give each tracklet as uint8 of shape \(frames, height, width, 3\)"
    ):
        OnnxEncoder(exported)([np.zeros((1, 8, 8, 3), np.uint8), wrong])


def test_small_stored_crops_are_enlarged_only_if_that_is_allowed(
    exported: Path, make_dataset: Callable[..., Path], tmp_path: Path
) -> None:
    data = make_dataset(tmp_path / "data", [[1, 1]])
    np.save(data / "crops.npy", np.load(data / "crops.npy")[:, ::2, ::2].copy())
    with pytest.raises(UserError, match="crops of 16 pixels, but the encoder takes 24"):
        embed_export(OnnxEncoder(exported), data)
    enlarged = embed_export(OnnxEncoder(exported), data, enlarge=True)
    assert np.isfinite(enlarged.vectors).all()
    assert enlarged.info["settings"] == {"enlarge": True}


@pytest.fixture
def copy(exported: Path, tmp_path: Path) -> Path:
    """A copy of the export that a test may damage."""
    return Path(shutil.copytree(exported, tmp_path / "copy"))


def use(folder: Path) -> None:
    OnnxEncoder(folder)([np.zeros((1, 24, 24, 3), np.uint8)])


def rehash(folder: Path) -> None:
    """Makes the hashes of a folder those of its files, as somebody who changes a file on purpose would."""
    info = read_json(folder / "export.json")
    files = {name: file_hash(folder / name) for name in info["files"]}
    write_json(folder / "export.json", info | {"files": files})


def test_a_changed_file_is_refused_by_its_hash(copy: Path) -> None:
    content = bytearray((copy / "features.onnx").read_bytes())
    content[len(content) // 2] ^= 1
    (copy / "features.onnx").write_bytes(content)
    with pytest.raises(UserError, match=r"features\.onnx: not the file that was exported \(hash\)"):
        use(copy)


def test_a_truncated_or_missing_file_is_named(copy: Path) -> None:
    (copy / "aggregate.onnx").write_bytes((copy / "aggregate.onnx").read_bytes()[:-100])
    with pytest.raises(UserError, match=r"aggregate\.onnx: not the file that was exported \(hash\)"):
        use(copy)
    rehash(copy)
    with pytest.raises(UserError, match=r"aggregate\.onnx: onnxruntime cannot load it"):
        use(copy)
    (copy / "features.onnx").unlink()
    with pytest.raises(UserError, match=r"features\.onnx: no such file"):
        use(copy)


def test_graphs_of_two_encoders_are_not_mixed(copy: Path, exported_frame: Path) -> None:
    shutil.copy(exported_frame / "features.onnx", copy / "features.onnx")
    with pytest.raises(UserError, match=r"\(hash\) .* do not mix two exports"):
        use(copy)
    rehash(copy)
    with pytest.raises(UserError, match=r"not those of export\.json \(ours, float32, .* do not mix two exports"):
        use(copy)


@pytest.mark.parametrize("way", ["..", "symlink", "hard link", "same folder", "constant"])
def test_weights_in_other_files_are_not_read(way: str, copy: Path) -> None:
    model = onnx.load(copy / "features.onnx")
    (copy.parent / "secret").write_bytes(bytes(1 << 20))
    location = "../secret" if way == ".." else "data"
    if way == "symlink":
        (copy / "data").symlink_to(copy.parent / "secret")
    elif way == "hard link":
        os.link(copy.parent / "secret", copy / "data")
    tensor = model.graph.initializer[0]
    if way == "constant":
        tensor = onnx.helper.make_tensor("hidden", onnx.TensorProto.FLOAT, [1], [0.0])
    tensor.raw_data = b""
    onnx.external_data_helper.set_external_data(tensor, location)
    tensor.ClearField("raw_data")
    if way == "constant":
        model.graph.node.append(onnx.helper.make_node("Constant", [], ["unused"], value=tensor))
    (copy / "features.onnx").write_bytes(model.SerializeToString())
    rehash(copy)
    with pytest.raises(UserError, match=r"features\.onnx: weights are stored in another file, which is not read"):
        use(copy)


def test_a_graph_of_another_program_is_refused(copy: Path) -> None:
    model = onnx.load(copy / "features.onnx")
    del model.metadata_props[:]
    onnx.save(model, copy / "features.onnx")
    rehash(copy)
    with pytest.raises(UserError, match="its metadata are not those of"):
        use(copy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"polyptrace": 2}, r"format version 2, written by release .*; this release .* reads 1"),
        ({"width": "16"}, r"width: '16' is not a whole number"),
        ({"width": 10**30}, r"width: 10+ is not in 1\.\."),
        ({"format": "pt2"}, r"an export to pt2"),
    ],
)
def test_another_version_or_a_damaged_description_says_what_differs(
    change: dict[str, object], message: str, copy: Path
) -> None:
    write_json(copy / "export.json", read_json(copy / "export.json") | change)
    with pytest.raises(UserError, match=message):
        OnnxEncoder(copy)


def test_a_damaged_export_json_is_accepted_or_refused(copy: Path) -> None:
    good, rng, refused = (copy / "export.json").read_bytes(), random.Random(0), 0
    for _ in range(40):
        (copy / "export.json").write_bytes(damaged("export.json", good, rng))
        try:
            use(copy)
        except UserError:
            refused += 1
    assert refused


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_damaged_metadata_of_a_graph_are_refused(text: str, copy: Path) -> None:
    model = onnx.load(copy / "features.onnx")
    next(each for each in model.metadata_props if each.key == "polyptrace").value = text
    onnx.save(model, copy / "features.onnx")
    rehash(copy)
    with pytest.raises(UserError, match=r"features\.onnx"):
        use(copy)


def test_a_folder_without_an_export_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"contains no export\.json"):
        OnnxEncoder(tmp_path)


def test_an_export_json_with_another_width_than_the_graphs_is_refused(copy: Path) -> None:
    write_json(copy / "export.json", read_json(copy / "export.json") | {"width": 3})
    with pytest.raises(UserError, match=r"features\.onnx: its metadata are not those of export\.json"):
        OnnxEncoder(copy)([np.zeros((2, 40, 40, 3), np.uint8)])
