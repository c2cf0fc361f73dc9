"""Exported graphs give torch's vectors for any number of tracklets, frames and pixels."""

import re
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from polyptrace.config import Embed
from polyptrace.core.errors import UserError
from polyptrace.core.files import read_json
from polyptrace.embed import OnnxEncoder, PretrainedEncoder, export_encoder
from polyptrace.embed.export import merge_groups, store_as
from polyptrace.encoders import ColourGrid
from polyptrace.encoders.encoder import OwnEncoder
from polyptrace.encoders.weights import fingerprint

BATCHES, LENGTHS = (1, 2, 7, 100), (1, 3, 8, 200)


def session(path: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def some_mask(batch: int, length: int) -> NDArray[np.bool_]:
    """Tracklets of different lengths."""
    return np.arange(length) < 1 + np.arange(batch)[:, None] * 5 % length


def assert_close(given: NDArray[np.float32], wanted: NDArray[np.float32], most: float = 1e-4) -> None:
    assert given.shape == wanted.shape
    assert np.abs(given - wanted).max() <= most
    assert cosines(given, wanted).min() >= 0.99999


def cosines(given: NDArray[np.float32], wanted: NDArray[np.float32]) -> NDArray[np.float32]:
    return (given * wanted).sum(1) / np.linalg.norm(given, axis=1) / np.linalg.norm(wanted, axis=1)


def test_an_export_does_not_change_the_random_numbers_of_the_caller(
    tracklet_encoder: OwnEncoder, tmp_path: Path
) -> None:
    before = torch.get_rng_state()
    export_encoder(tracklet_encoder, tmp_path / "exported", "pt2")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("batch", BATCHES)
def test_features_become_the_vectors_of_torch(batch: int, exported: Path, tracklet_encoder: OwnEncoder) -> None:
    graph, random = session(exported / "aggregate.onnx"), np.random.default_rng(batch)
    for length in LENGTHS:
        features, mask = random.normal(0, 1, (batch, length, 96)).astype(np.float32), some_mask(batch, length)
        vectors = graph.run(None, {"features": features, "mask": mask})[0]
        with torch.inference_mode():
            wanted = tracklet_encoder.aggregate(torch.from_numpy(features), torch.from_numpy(mask)).numpy()
        assert_close(vectors, wanted)


@pytest.mark.parametrize(("batch", "length"), list(zip(BATCHES, reversed(LENGTHS), strict=True)))
def test_pixels_become_the_vectors_of_torch_in_one_graph(
    batch: int, length: int, exported: Path, tracklet_encoder: OwnEncoder
) -> None:
    crops = np.random.default_rng(0).integers(0, 256, (batch, length, 24, 24, 3), np.uint8)
    mask = some_mask(batch, length)
    vectors = session(exported / "encoder.onnx").run(None, {"crops": crops, "mask": mask})[0]
    with torch.inference_mode():
        wanted = tracklet_encoder(torch.from_numpy(crops), torch.from_numpy(mask)).numpy()
    assert_close(vectors, wanted)


@pytest.mark.parametrize("shape", [(24, 24), (10, 13), (24, 60), (101, 37), (300, 260)])
def test_any_size_is_resized_as_torch_resizes_it(
    shape: tuple[int, int], exported: Path, tracklet_encoder: OwnEncoder
) -> None:
    tracklets = [np.random.default_rng(length).integers(0, 256, (length, *shape, 3), np.uint8) for length in (1, 5)]
    torch_encoder = PretrainedEncoder(tracklet_encoder, Embed(device="cpu"))
    assert_close(OnnxEncoder(exported)(tracklets), torch_encoder(tracklets))


def test_every_free_dimension_is_symbolic_and_named(exported: Path, exported_frame: Path) -> None:
    for folder in (exported, exported_frame):
        shapes = {
            name: {each.name: each.shape for each in (*graph.get_inputs(), *graph.get_outputs())}
            for name in ("features", "aggregate", "encoder")
            for graph in [session(folder / f"{name}.onnx")]
        }
        width = OnnxEncoder(folder).info.width
        assert shapes["features"]["crops"] == ["frames", "height", "width", 3]
        assert shapes["features"]["features"][0] == "frames"
        assert shapes["aggregate"]["features"][:2] == shapes["aggregate"]["mask"] == ["tracklets", "length"]
        assert shapes["encoder"]["crops"] == ["tracklets", "length", "height", "width", 3]
        assert shapes["aggregate"]["vectors"] == shapes["encoder"]["vectors"] == ["tracklets", width]


def test_the_fingerprint_is_that_of_the_encoder_unless_its_numbers_are_rounded(
    exported: Path, exported_frame: Path, tracklet_encoder: OwnEncoder, frame_encoder: OwnEncoder
) -> None:
    assert OnnxEncoder(exported).fingerprint == fingerprint(tracklet_encoder)
    assert OnnxEncoder(exported_frame).fingerprint not in (fingerprint(frame_encoder), fingerprint(tracklet_encoder))
    for folder in (exported, exported_frame):
        properties = {each.key: each.value for each in onnx.load(folder / "encoder.onnx").metadata_props}
        assert read_json(folder / "export.json")["fingerprint"] in properties["polyptrace"]


def test_float16_halves_the_file_and_keeps_the_vectors(exported: Path, tmp_path: Path) -> None:
    model = store_as("float16", onnx.load(exported / "encoder.onnx"), tmp_path / "scratch")
    onnx.save(model, tmp_path / "half.onnx")
    size, half = (path.stat().st_size for path in (exported / "encoder.onnx", tmp_path / "half.onnx"))
    assert half < 0.6 * size
    inputs = {"crops": np.random.default_rng(0).integers(0, 256, (3, 4, 30, 30, 3), np.uint8), "mask": some_mask(3, 4)}
    given, wanted = (session(path).run(None, inputs)[0] for path in (tmp_path / "half.onnx", exported / "encoder.onnx"))
    assert 0 < np.abs(given - wanted).max() < 1e-2
    assert cosines(given, wanted).min() > 0.9999


def test_int8_is_a_quarter_and_its_loss_is_on_the_card(exported_frame: Path, frame_encoder: OwnEncoder) -> None:
    floats = sum(weight.numel() for weight in frame_encoder.parameters())
    assert (exported_frame / "features.onnx").stat().st_size < floats + 60_000
    card = (exported_frame / "README.md").read_text()
    line = re.search(r"Retrieval mAP on coloured, .*: (\S+) \(float32, torch\), (\S+) \(int8, ONNX\)", card)
    assert line is not None
    assert abs(float(line[1]) - float(line[2])) <= 0.5
    tracklets = [np.random.default_rng(0).integers(0, 256, (4, 30, 30, 3), np.uint8)]
    given, wanted = OnnxEncoder(exported_frame)(tracklets), PretrainedEncoder(frame_encoder)(tracklets)
    assert 0.995 < cosines(given, wanted).min() < 1


def test_pt2_graphs_give_the_vectors_of_torch(tracklet_encoder: OwnEncoder, tmp_path: Path) -> None:
    export_encoder(tracklet_encoder, tmp_path / "out", "pt2")
    program = torch.export.load(tmp_path / "out/encoder.pt2").module()
    crops = torch.randint(0, 256, (3, 5, 40, 30, 3), dtype=torch.uint8)
    mask = torch.from_numpy(some_mask(3, 5))
    vectors = PretrainedEncoder(tracklet_encoder, Embed(device="cpu"))([c[m] for c, m in zip(crops, mask, strict=True)])
    with torch.inference_mode():
        assert_close(program(crops, mask).numpy(), vectors)
    with pytest.raises(UserError, match=r"export\.json: an export to pt2 -> run it with torch"):
        OnnxEncoder(tmp_path / "out")


def test_what_cannot_be_exported_is_refused_before_the_work(tracklet_encoder: OwnEncoder, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="colour-grid: was not trained here"):
        export_encoder(ColourGrid(), tmp_path / "out")
    with pytest.raises(UserError, match="--precision int8: not a precision of pt2 -> give float32"):
        export_encoder(tracklet_encoder, tmp_path / "out", "pt2", precision="int8")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine.txt").touch()
    with pytest.raises(UserError, match=r"contains no export\.json"):
        export_encoder(tracklet_encoder, tmp_path / "out", overwrite=True)


class Grouped(nn.Module):
    """A convolution with groups of 8 channels between two others; `reused`: its input is used a second time."""

    def __init__(self, channels: int, reused: bool) -> None:
        super().__init__()
        self.before, self.after = nn.Conv2d(3, channels, 1), nn.Conv2d(channels, 5, 1)
        self.grouped = nn.Conv2d(channels, channels, 3, padding=1, groups=channels // 8)
        self.reused = reused

    def forward(self, frames: Tensor) -> Tensor:
        given = self.before(frames).relu()
        computed = self.grouped(given).relu()
        return self.after(computed + given if self.reused else computed)


@pytest.mark.parametrize(
    ("channels", "reused", "groups"), [(24, False, 2), (40, False, 3), (32, True, 2), (24, True, 3)]
)
def test_small_groups_are_merged_into_groups_of_16_channels(channels: int, reused: bool, groups: int) -> None:
    network, frames = Grouped(channels, reused).eval(), torch.randn(2, 3, 9, 7)
    program = torch.onnx.export(network, (frames,), opset_version=20, dynamo=True, verbose=False)
    merge_groups(program.model.graph)
    (node,) = [each for each in program.model.graph if each.op_type == "Conv" and each.attributes["group"].value > 1]
    assert node.attributes["group"].value == groups
    run = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"]).run
    with torch.inference_mode():
        wanted = network(frames).numpy()
    np.testing.assert_allclose(run(None, {program.model.graph.inputs[0].name: frames.numpy()})[0], wanted, atol=1e-6)


@pytest.mark.parametrize("name", ["onnx", "onnxscript", "onnxruntime"])
def test_a_missing_package_is_an_error_that_names_the_extra(
    name: str, tracklet_encoder: OwnEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=rf"{name} is not installed -> pip install 'polyptrace\[onnx\]'"):
        export_encoder(tracklet_encoder, tmp_path / "out")
    assert not list(tmp_path.iterdir())
