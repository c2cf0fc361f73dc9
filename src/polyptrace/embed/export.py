"""Encoders for other programs: as ONNX or PT2 graphs, with resizing and normalisation inside.

    export_encoder(load_encoder("runs/ours"), Path("exported"), "onnx", precision="int8")

A folder has three graphs. All take uint8 pixels of any height and width, and any number of tracklets and frames:

features    crops (n, H, W, 3) uint8                               -> features (n, F)
aggregate   features (B, L, F), mask (B, L) bool, True where valid -> vectors (B, D)
encoder     crops (B, L, H, W, 3) uint8, mask (B, L) bool          -> vectors (B, D)

`export.json` and the metadata of each graph name the encoder by its fingerprint. `polyptrace.embed.onnx` runs the ONNX
graphs without torch. With float16 and int8, weights are stored in that type; convolutions compute in float32, and with
int8 the matrix products of the transformer compute in int8 (dynamic quantisation).
"""

import hashlib
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

import polyptrace
from polyptrace.core.arrays import Float32s
from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_folder, file_hash, write_json
from polyptrace.core.randomness import numpy_generator
from polyptrace.embed.onnx import INFO_FILE, VERSION, ExportInfo, OnnxEncoder, metadata
from polyptrace.encoders.encoder import BaseEncoder, OwnEncoder, TrainingRecord, plain_attention
from polyptrace.encoders.encoder_folder import model_card
from polyptrace.encoders.preprocess import CropPreparation
from polyptrace.encoders.weights import fingerprint, weights_hash

if TYPE_CHECKING:
    import onnx
    import onnx_ir

FORMATS = {"onnx": ("float32", "float16", "int8"), "pt2": ("float32",)}
OPSET = 20  # of ONNX; Resize has antialiasing since 18
#: Weights with fewer numbers are stored in float32.
LEAST_NUMBERS = 256
#: Channels in a group of a convolution, at least: onnxruntime's fast convolutions take blocks of 16 (AVX-512).
GROUP_CHANNELS = 16
#: The largest difference of an ONNX vector from torch's in float32, and the least cosine in a smaller type.
TOLERANCE, LEAST_COSINE = 1e-4, 0.98

#: Names of the dimensions of each input that may have any length.
DIMENSIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "features": {"crops": ("frames", "height", "width")},
    "aggregate": {"features": ("tracklets", "length"), "mask": ("tracklets", "length")},
    "encoder": {"crops": ("tracklets", "length", "height", "width"), "mask": ("tracklets", "length")},
}
OUTPUTS = {"features": "features", "aggregate": "vectors", "encoder": "vectors"}


class _Features(nn.Module):
    """Crops (n, H, W, 3) -> features (n, F)."""

    def __init__(self, encoder: OwnEncoder) -> None:
        super().__init__()
        self.encoder, self.prepare = encoder, CropPreparation(encoder.preprocess, enlarge=True)

    def forward(self, crops: Tensor) -> Tensor:
        return self.encoder.frame_features(self.prepare(crops))


class _Aggregate(nn.Module):
    """Features (B, L, F), mask (B, L) -> vectors (B, D)."""

    def __init__(self, encoder: OwnEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, features: Tensor, mask: Tensor) -> Tensor:
        return self.encoder.aggregate(features, mask)


class _Encoder(_Features):
    """Crops (B, L, H, W, 3), mask (B, L) -> vectors (B, D)."""

    def forward(self, crops: Tensor, mask: Tensor) -> Tensor:  # type: ignore[override]
        features = super().forward(crops.flatten(0, 1)).reshape(crops.shape[0], crops.shape[1], -1)
        return self.encoder.aggregate(features, mask)


def export_encoder(
    encoder: BaseEncoder,
    out: Path,
    to: str = "onnx",
    *,
    precision: str = "float32",
    record: TrainingRecord | None = None,
    measure: Callable[[Path], Mapping[str, str | float]] | None = None,
    overwrite: bool = False,
) -> None:
    """Writes the graphs of an encoder that polyptrace trained, `export.json` and the model card, atomically.

    `record` is for the card; by default, it is the record that the encoder was loaded with. `measure` is called with
    the folder of the graphs, and its results are added to the card.
    """
    if not isinstance(encoder, OwnEncoder):
        raise UserError(f"{encoder.name}: was not trained here and is not exported -> give a run or an encoder folder")
    if precision not in FORMATS[to]:
        raise UserError(f"--precision {precision}: not a precision of {to} -> give {' or '.join(FORMATS[to])}")
    if to == "onnx":
        _require_onnx()
    own = deepcopy(encoder).float().cpu().eval()
    record, weights = record or own.record, weights_hash(own)
    with atomic_folder(out, overwrite=overwrite, mark=INFO_FILE) as temporary:
        info = ExportInfo(
            polyptrace=VERSION,
            release=polyptrace.__version__,
            format=to,
            precision=precision,
            name=own.name,
            width=own.width,
            size=own.preprocess.size,
            model_hash=_stored_as(precision, weights),
            fingerprint=_stored_as(precision, fingerprint(own, weights)),
        )
        for name, graph in _graphs(own).items():
            _write(graph, name, info, temporary / f"{name}.{to}")
        hashes = {f"{name}.{to}": file_hash(temporary / f"{name}.{to}") for name in DIMENSIONS}
        content = asdict(info) | {"files": hashes, "preprocess": asdict(own.preprocess)}
        write_json(temporary / INFO_FILE, content)
        if to == "onnx":
            _check(own, temporary, precision)
        if measure is not None:
            record = replace(record, results={**record.results, **measure(temporary)})
        write_json(temporary / INFO_FILE, content | {"training": asdict(record)})
        (temporary / "README.md").write_text(model_card(own, record, info.fingerprint), encoding="utf-8")


def _require_onnx() -> None:
    """Raises an error if a package of the extra `onnx` is missing, before the minutes that an export can take."""
    for name in ("onnx", "onnxscript", "onnxruntime"):
        try:
            import_module(name)
        except ImportError:
            raise UserError(f"{name} is not installed -> pip install 'polyptrace[onnx]'") from None


def _stored_as(precision: str, digest: str) -> str:
    """The hash of an encoder whose numbers are stored in another type."""
    return digest if precision == "float32" else hashlib.sha256(f"{digest} {precision}".encode()).hexdigest()


def _graphs(encoder: OwnEncoder) -> dict[str, ExportedProgram]:
    """The three graphs with symbolic dimensions. `Dim.DYNAMIC` is an error if a dimension becomes a constant."""
    frames = torch.zeros((6, encoder.preprocess.size + 9, encoder.preprocess.size + 5, 3), dtype=torch.uint8)
    tracklets, mask = frames.reshape(2, 3, *frames.shape[1:]), torch.ones(2, 3, dtype=torch.bool)
    with torch.no_grad(), plain_attention():
        features = _Features(encoder)(frames).reshape(2, 3, -1)
        modules: dict[str, tuple[nn.Module, tuple[Tensor, ...]]] = {
            "features": (_Features(encoder), (frames,)),
            "aggregate": (_Aggregate(encoder), (features, mask)),
            "encoder": (_Encoder(encoder), (tracklets, mask)),
        }
        return {
            name: torch.export.export(
                module.eval(),
                inputs,
                dynamic_shapes={
                    each: dict.fromkeys(range(len(dimensions)), Dim.DYNAMIC)
                    for each, dimensions in DIMENSIONS[name].items()
                },
            )
            for name, (module, inputs) in modules.items()
        }


def _write(graph: ExportedProgram, name: str, info: ExportInfo, path: Path) -> None:
    if info.format == "pt2":
        torch.export.save(graph, path, extra_files={"polyptrace.json": metadata(info, name)})
        return
    import onnx

    program = torch.onnx.export(
        graph, opset_version=OPSET, output_names=[OUTPUTS[name]], dynamo=True, verbose=False, external_data=False
    )
    assert program is not None
    merge_groups(program.model.graph)
    for given, titles in zip(program.model.graph.inputs, DIMENSIONS[name].values(), strict=True):
        program.rename_axes({str(size): title for size, title in zip(given.shape or (), titles, strict=False)})
    model: onnx.ModelProto = program.model_proto
    del model.graph.value_info[:]  # no runtime needs the shapes of intermediate values
    remove_traces(model)
    model = store_as(info.precision, model, path)
    onnx.helper.set_model_props(model, {"polyptrace": metadata(info, name)})
    onnx.save(model, path)


def remove_traces(model: "onnx.ModelProto") -> None:
    """Removes the stack traces that torch writes into a graph, with paths of this machine."""
    graph_parts = (model.graph.node, model.graph.input, model.graph.output, model.graph.initializer)
    for part in (model, model.graph, *(each for parts in graph_parts for each in parts)):
        del part.metadata_props[:]


def merge_groups(graph: "onnx_ir.Graph") -> None:
    """Merges the small groups of convolutions into groups of 16 channels, with zeros between them; same output.

    If the channels are not a multiple of 16, zeros are appended to them, from the convolution before to the one after.
    That is possible if only ReLU lies between them.
    """
    import onnx_ir

    for node in graph:
        weights = _constant(node, 1) if node.op_type == "Conv" else np.empty((0, 0), np.float32)  # (C, c, h, w)
        (channels, small), groups = weights.shape[:2], node.attributes.get_int("group", 1)
        if groups == 1 or small == 1 or GROUP_CHANNELS % small or channels != groups * small:
            continue
        surplus = -channels % GROUP_CHANNELS
        if surplus:
            before, after = _plain_convolution(node, after=False), _plain_convolution(node, after=True)
            if before is None or after is None:
                continue
            for each, index, axis in ((before, 1, 0), (before, 2, 0), (node, 2, 0), (after, 1, 1)):
                if index < len(each.inputs):  # a bias is optional
                    array = _constant(each, index)
                    zeros = np.zeros([surplus if i == axis else n for i, n in enumerate(array.shape)], np.float32)
                    _set_constant(each, index, np.concatenate([array, zeros], axis))
        merged = np.zeros((channels + surplus, GROUP_CHANNELS, *weights.shape[2:]), np.float32)
        for channel in range(channels):
            first = channel % GROUP_CHANNELS // small * small
            merged[channel, first : first + small] = weights[channel]
        _set_constant(node, 1, merged)
        node.attributes["group"] = onnx_ir.AttrInt64("group", len(merged) // GROUP_CHANNELS)


def _plain_convolution(node: "onnx_ir.Node", *, after: bool) -> "onnx_ir.Node | None":
    """The convolution without groups before or after a node, if only ReLU lies between and no other node uses it."""
    beside: onnx_ir.Node | None = node
    while beside is not None:
        value = beside.outputs[0] if after else beside.inputs[0]
        if value is None or len(value.uses()) != 1 or value.is_graph_output():
            return None
        beside = value.consumers()[0] if after else value.producer()
        if beside is not None and beside.op_type != "Relu":
            return beside if beside.op_type == "Conv" and beside.attributes.get_int("group", 1) == 1 else None
    return None


def _constant(node: "onnx_ir.Node", index: int) -> Float32s:
    """The weights that are an input of a node."""
    value = node.inputs[index]
    assert value is not None
    assert value.const_value is not None
    return value.const_value.numpy()


def _set_constant(node: "onnx_ir.Node", index: int, array: Float32s) -> None:
    """Replaces the weights that are an input of a node, which other nodes may use as well."""
    import onnx_ir

    old, graph, name = node.inputs[index], node.graph, f"{node.name}.input{index}.padded"
    assert old is not None
    assert old.name is not None
    assert isinstance(graph, onnx_ir.Graph)
    new = onnx_ir.Value(name=name, const_value=onnx_ir.tensor(array, name=name))
    graph.register_initializer(new)
    node.replace_input_with(index, new)
    if not old.uses():
        graph.initializers.pop(old.name)


def store_as(precision: str, model: "onnx.ModelProto", scratch: Path) -> "onnx.ModelProto":
    """A float32 model with smaller weights; `scratch` is a file that may be overwritten.

    int8: matrix products compute in int8 with dynamic ranges; convolutions have one scale per filter.
    """
    import onnx

    if precision == "float16":
        _store(model, {weights.name for weights in model.graph.initializer}, np.float16)
    if precision == "int8":
        from onnxruntime.quantization import QuantType, quantize_dynamic

        _store(model, {node.input[1] for node in model.graph.node if node.op_type == "Conv"}, np.int8)
        matrices = ["MatMul", "Gemm"]
        onnx.helper.set_model_props(model, {"onnx.quant.pre_process": "onnxruntime.quant"})  # or it logs advice
        quantize_dynamic(model, scratch, op_types_to_quantize=matrices, per_channel=True, weight_type=QuantType.QInt8)
        model = onnx.load(scratch)
    return model


def _store(model: "onnx.ModelProto", names: set[str], kind: type[np.float16 | np.int8]) -> None:
    """Replaces named weights by smaller ones and nodes that restore them, which runtimes compute once, when they load.

    int8 weights (C, c, h, w) are multiplied with one scale per filter.
    """
    from onnx import TensorProto, helper, numpy_helper

    nodes, kept = [], []
    for weights in model.graph.initializer:
        array, stored = numpy_helper.to_array(weights), f"{weights.name}.stored"
        if array.dtype != np.float32 or array.size < LEAST_NUMBERS or weights.name not in names:
            kept.append(weights)
        elif kind is np.float16:
            kept.append(numpy_helper.from_array(array.astype(np.float16), stored))
            nodes.append(helper.make_node("Cast", [stored], [weights.name], to=TensorProto.FLOAT))
        else:
            scale = np.abs(array).max(axis=(1, 2, 3), keepdims=True).clip(1e-12) / np.float32(127)
            kept.append(numpy_helper.from_array(np.rint(array / scale).astype(np.int8), stored))
            kept.append(numpy_helper.from_array(scale.astype(np.float32), f"{stored}scale"))
            restored = f"{weights.name}.restored"
            nodes.append(helper.make_node("Cast", [stored], [restored], to=TensorProto.FLOAT))
            nodes.append(helper.make_node("Mul", [restored, f"{stored}scale"], [weights.name]))
    others = [*nodes, *model.graph.node]
    del model.graph.initializer[:], model.graph.node[:]
    model.graph.initializer.extend(kept)
    model.graph.node.extend(others)


def _check(encoder: OwnEncoder, folder: Path, precision: str) -> None:
    """Raises an error if the ONNX graphs do not give torch's vectors, with other shapes than those of the export."""
    random = numpy_generator(0)
    tracklets = [random.integers(0, 256, (length, 50, 40, 3), np.uint8) for length in (5, 1)]
    with torch.inference_mode():
        features = [_Features(encoder)(torch.from_numpy(each)) for each in tracklets]
        wanted = torch.cat([encoder.aggregate(each[None]) for each in features]).numpy()
    given = OnnxEncoder(folder)(tracklets)
    difference = float(np.abs(given - wanted).max())
    cosine = (given * wanted).sum(1) / (np.linalg.norm(given, axis=1) * np.linalg.norm(wanted, axis=1))
    if not (difference <= TOLERANCE if precision == "float32" else (cosine >= LEAST_COSINE).all()):  # NaN fails
        raise UserError(
            f"{encoder.name}: the graphs in {precision} differ from torch by {difference:.1e} (cosine"
            f" {cosine.min():.4f}) -> export it in float32; if that fails too, report it with the versions of torch and"
            " onnxruntime"
        )
