"""Each kind of detector finds the same bright square, and a wrong file is an error that says what was expected."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torchvision.models import get_model
from transformers import RTDetrImageProcessor, RTDetrV2Config, RTDetrV2ForObjectDetection

from polyptrace.core.codec import decode_image
from polyptrace.core.errors import PolyptraceWarning, UserError
from polyptrace.data import Boxes, read_coco
from polyptrace.data.crops.videos import write_video
from polyptrace.data.tracks import box_iou
from polyptrace.detect import detect, load_detector
from polyptrace.synthetic.generate import write_coco

FRAME = np.zeros((90, 160, 3), np.uint8)


def constant_model(
    path: Path, outputs: dict[str, np.ndarray], size_input: bool = False, shape: Sequence[int | str] = (1, 3, 64, 64)
) -> Path:
    """A detector that always gives the same outputs; it depends on its picture, as ONNX requires."""
    inputs = [helper.make_tensor_value_info("images", TensorProto.FLOAT, shape)]
    if size_input:
        inputs.append(helper.make_tensor_value_info("orig_target_sizes", TensorProto.INT64, [1, 2]))
    nodes, infos, constants = [], [], []
    for name, value in outputs.items():
        kind = TensorProto.INT64 if value.dtype == np.int64 else TensorProto.FLOAT
        constants.append(numpy_helper.from_array(value, f"{name}_value"))
        nodes.append(helper.make_node("Identity", [f"{name}_value"], [name]))
        infos.append(helper.make_tensor_value_info(name, kind, list(value.shape)))
    graph = helper.make_graph(nodes, "detector", inputs, infos, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def yolo_rows(count: int, columns: int) -> np.ndarray:
    """Rows (count, columns) of YOLO: two boxes on the same place, one of them weaker, and weak ones elsewhere."""
    rows = np.zeros((count, columns), np.float32)
    rows[:, :4] = (50, 50, 4, 4)
    rows[0, :4], rows[1, :4] = (20, 30, 20, 20), (21, 30, 20, 20)  # centre, size
    return rows


def outputs_of(layout: str) -> dict[str, np.ndarray]:
    if layout == "yolo":
        rows = yolo_rows(300, 5)
        rows[:2, 4] = 0.9, 0.6
        return {"output0": rows.T[None].copy()}
    if layout == "yolov5":
        rows = yolo_rows(1500, 6)
        rows[:2, 4], rows[:2, 5] = (0.95, 0.7), 0.9
        return {"output0": rows[None]}
    corners = np.array([[10, 20, 30, 40]], np.float32)
    if layout == "rows":
        return {"output0": np.concatenate([corners, [[0.9, 0]]], 1)[None].astype(np.float32)}
    if layout == "detr":
        share = np.array([[[20 / 64, 30 / 64, 20 / 64, 20 / 64]]], np.float32)
        return {"logits": np.array([[[2.2]]], np.float32), "pred_boxes": share}
    return {"labels": np.array([[0]]), "boxes": corners[None], "scores": np.array([[0.9]], np.float32)}


@pytest.mark.parametrize("layout", ["yolo", "yolov5", "rows", "detr", "separate"])
def test_the_layout_of_an_onnx_file_is_recognised(tmp_path: Path, layout: str) -> None:
    path = constant_model(tmp_path / "polyps.onnx", outputs_of(layout), size_input=layout == "separate")
    (actual,) = load_detector(str(path))([FRAME], [0])
    if layout in ("detr", "separate"):  # stretched: 160 / 64 and 90 / 64
        expected = np.array([10 * 2.5, 20 * 90 / 64, 20 * 2.5, 20 * 90 / 64])
    else:  # letterboxed: 64 / 160 in both directions, and 14 rows above
        expected = np.array([10, 20 - 14, 20, 20]) / 0.4
    assert actual.shape == (1, 5)
    assert np.allclose(actual[0, :4], expected, atol=1e-3)
    assert abs(actual[0, 4] - 0.9) < 0.05


def test_an_onnx_file_that_cannot_use_the_gpu_runs_on_the_cpu_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = constant_model(tmp_path / "polyps.onnx", outputs_of("yolo"))
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.warns(PolyptraceWarning, match=r"polyps\.onnx: runs on the CPU, .* pip install onnxruntime-gpu"):
        (actual,) = load_detector(str(path), torch.device("cuda"))([FRAME], [0])
    assert len(actual) == 1


def test_a_declaration_beside_the_file_replaces_what_is_recognised(tmp_path: Path) -> None:
    path = constant_model(tmp_path / "polyps.onnx", outputs_of("rows"))
    (tmp_path / "polyps.toml").write_text('layout = "rows"\nletterbox = false\nboxes = "xywh"\nclasses = [0, 3]\n')
    (actual,) = load_detector(str(path))([FRAME], [0])
    assert np.allclose(actual[0, :4], [25, 20 * 90 / 64, 75, 40 * 90 / 64], atol=1e-3)
    (tmp_path / "polyps.toml").write_text("classes = [1]\n")
    assert len(load_detector(str(path))([FRAME], [0])[0]) == 0
    (tmp_path / "polyps.toml").write_text("klasses = [1]\n")
    with pytest.raises(UserError, match=r"polyps\.toml: klasses: is not a known field"):
        load_detector(str(path))


def test_a_wrong_onnx_file_is_an_error_that_names_what_was_expected_and_found(tmp_path: Path) -> None:
    unknown = constant_model(tmp_path / "classifier.onnx", {"probability": np.ones((1, 5), np.float32)})
    with pytest.raises(UserError, match=r"outputs are not recognised: probability \(1, 5\) -> expected are \(N, 4"):
        load_detector(str(unknown))
    text = helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, 128])
    out = helper.make_tensor_value_info("y", TensorProto.INT64, [1, 128])
    graph = helper.make_graph([helper.make_node("Identity", ["input_ids"], ["y"])], "text", [text], [out])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "t.onnx")
    with pytest.raises(UserError, match=r"expected one input \(N, 3, height, width\).* found: input_ids \[1, 128\]"):
        load_detector(str(tmp_path / "t.onnx"))
    (tmp_path / "broken.onnx").write_bytes(b"\x08\x07junk")
    with pytest.raises(UserError, match=r"broken\.onnx: not a readable ONNX file"):
        load_detector(str(tmp_path / "broken.onnx"))


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (
            'layout = "detr"',
            r"do not fit the layout 'detr': output0 \(1, 1, 6\) -> expected are .*; correct the layout",
        ),
        ('layout = "yolo"', r"do not fit the layout 'yolo': output0 \(1, 1, 6\)"),
        ("size = [640]", r"polyps\.toml: .*size: \[640\] is not \[width, height\] in pixels"),
        ("size = [640, 640]", r"its input is 64 x 64 pixels, polyps\.toml says 640 x 640"),
        ("mean = [0.5]", r"mean: \[0\.5\] is not one number for each of red, green and blue"),
        ("std = [0.2, 0.0, 0.2]", r"std: \[0\.2, 0\.0, 0\.2\] has a number that is not above 0"),
        ("overlap = 70.0", "overlap: 70 is not from 0 to 1"),
    ],
)
def test_a_wrong_declaration_is_an_error_before_the_detector_runs(tmp_path: Path, key: str, problem: str) -> None:
    path = constant_model(tmp_path / "polyps.onnx", outputs_of("rows"))
    (tmp_path / "polyps.toml").write_text(key)
    with pytest.raises(UserError, match=problem):
        load_detector(str(path))


def test_every_dimension_of_the_input_may_have_a_name(tmp_path: Path) -> None:
    """As exports of transformers have them; the size is then declared."""
    names = ("batch_size", "num_channels", "height", "width")
    path = constant_model(tmp_path / "polyps.onnx", outputs_of("detr"), shape=names)
    (tmp_path / "polyps.toml").write_text("size = [64, 64]\n")
    (actual,) = load_detector(str(path))([FRAME], [0])
    assert np.allclose(actual[0, :4], [25, 20 * 90 / 64, 50, 20 * 90 / 64], atol=1e-3)


def test_an_onnx_file_that_cannot_be_run_on_its_size_is_an_error_that_names_it(tmp_path: Path) -> None:
    """The outputs have as many rows as a picture of 64 pixels, but the size is not declared."""
    image = helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 3, "h", "w"])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 4096])
    shape = numpy_helper.from_array(np.array([1, 3, 4096]), "shape")
    graph = helper.make_graph([helper.make_node("Reshape", ["images", "shape"], ["y"])], "g", [image], [out], [shape])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "p.onnx")
    with pytest.raises(UserError, match=r"cannot be run on a picture of 640 x 640 pixels \(.*\) -> declare the size"):
        load_detector(str(tmp_path / "p.onnx"))


@pytest.fixture(scope="module")
def small_rt_detr() -> RTDetrV2ForObjectDetection:
    torch.manual_seed(0)
    backbone = {"model_type": "rt_detr_resnet", "depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32]}
    backbone |= {"embedding_size": 8, "layer_type": "basic", "out_features": ["stage2", "stage3", "stage4"]}
    config = RTDetrV2Config(
        backbone_config=backbone,
        encoder_in_channels=[16, 24, 32],
        encoder_hidden_dim=32,
        encoder_ffn_dim=32,
        d_model=32,
        decoder_in_channels=[32, 32, 32],
        decoder_ffn_dim=32,
        decoder_layers=2,
        num_queries=20,
        num_labels=2,
    )
    return RTDetrV2ForObjectDetection(config)


def test_a_transformers_folder_gives_boxes_in_pixels_of_the_frame(
    tmp_path: Path, small_rt_detr: RTDetrV2ForObjectDetection
) -> None:
    small_rt_detr.save_pretrained(tmp_path / "model")
    processor = RTDetrImageProcessor(size={"height": 96, "width": 96})
    processor.save_pretrained(tmp_path / "model")
    actual = load_detector(str(tmp_path / "model"))([FRAME, FRAME], [0, 1])
    with torch.inference_mode():
        outputs = small_rt_detr.eval()(**processor(images=[FRAME], return_tensors="pt"))
    (expected,) = processor.post_process_object_detection(outputs, threshold=0.01, target_sizes=[(90, 160)])
    assert len(actual) == 2
    assert np.allclose(actual[0][:, 4], expected["scores"], atol=1e-4)
    x1, y1, x2, y2 = expected["boxes"].T.numpy()
    assert np.allclose(actual[0][:, :4], np.stack([x1, y1, x2 - x1, y2 - y1], 1), atol=1e-2)
    (tmp_path / "model/detector.toml").write_text("classes = [1]\n")
    assert 0 < len(load_detector(str(tmp_path / "model"))([FRAME], [0])[0]) < len(actual[0])


def test_a_folder_without_a_detector_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(UserError, match="not an object detector of transformers"):
        load_detector(str(tmp_path))


def test_torchvision_weights_are_recognised_by_their_names_and_shapes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    name = "ssdlite320_mobilenet_v3_large"
    model = get_model(name, weights=None, weights_backbone=None, num_classes=2).eval()
    torch.save(model.state_dict(), tmp_path / "polyps.pth")
    (actual,) = load_detector(str(tmp_path / "polyps.pth"))([FRAME], [0])
    with torch.inference_mode():
        (expected,) = model([torch.from_numpy(FRAME).permute(2, 0, 1).float() / 255])
    assert len(actual) == len(expected["scores"]) > 0
    assert np.allclose(actual[:, 4], expected["scores"], atol=1e-5)
    assert np.allclose(actual[:, :2], expected["boxes"][:, :2], atol=1e-3)
    torch.save({"fc.weight": torch.zeros(3, 3)}, tmp_path / "other.pth")
    with pytest.raises(UserError, match=r"other\.pth: its weights fit no detection model of torchvision"):
        load_detector(str(tmp_path / "other.pth"))


def test_a_pickle_is_never_run(tmp_path: Path) -> None:
    class Harmful:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (tmp_path / "ran",))

    torch.save({"weights": Harmful()}, tmp_path / "polyps.pth")
    with pytest.raises(UserError):
        load_detector(str(tmp_path / "polyps.pth"))
    assert not (tmp_path / "ran").exists()


def test_a_python_function_is_a_detector(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n\ndef find(frames):\n    return [np.array([[1, 2, 3, 4, 0.5]]) for frame in frames]\n"
    )
    assert load_detector(f"{tmp_path}/mine.py:find")([FRAME], [0])[0].tolist() == [[1, 2, 3, 4, 0.5]]
    with pytest.raises(UserError, match="has no function 'lost'"):
        load_detector(f"{tmp_path}/mine.py:lost")
    (tmp_path / "mine.py").write_text("import nowhere\n")
    with pytest.raises(UserError, match=r"mine\.py: cannot be imported \(ModuleNotFoundError: No module named"):
        load_detector(f"{tmp_path}/mine.py:find")


def test_stored_boxes_of_any_format_are_found_by_the_name_of_the_video(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    frames = (np.full((64, 64, 3), (120 + 5 * i, 50, 40), np.uint8) for i in range(9))
    write_video(tmp_path / "a/one.mp4", frames)
    boxes = Boxes.of(
        video=["one", "one", "two"],
        frame_index=[2, 7, 3],
        xywh=[[1, 2, 30, 20], [5, 6, 7, 8], [9, 9, 9, 9]],
        file=["images/one_2.jpg", "images/one_7.jpg", "images/two_3.jpg"],
        image_width=64,
        image_height=64,
        dataset="d",
        histology="",
        size_mm=3.0,
        fps=25.0,
    )
    write_coco(tmp_path / "annotations/instances_train.json", boxes)
    spec = f"coco:{tmp_path / 'annotations/instances_train.json'}"
    made = detect(tmp_path / "a/one.mp4", load_detector(spec, video=tmp_path / "a/one.mp4"), tmp_path / "out")
    assert made.path.read_text().splitlines() == [
        "3,-1,2.00,3.00,30.00,20.00,1.0000,-1,-1,-1",
        "8,-1,6.00,7.00,7.00,8.00,1.0000,-1,-1,-1",
    ]
    with pytest.raises(UserError, match=r"has boxes of 2 videos \(one, two\), and not exactly one is named 'three'"):
        load_detector(spec, video=tmp_path / "three.mp4")


@pytest.mark.parametrize("spec", ["nothing.onnx", "somewhere", "lost.py:find", "nope:boxes.txt"])
def test_what_is_not_a_detector_is_an_error(spec: str) -> None:
    with pytest.raises(UserError, match=f"--detector {spec}: no such file"):
        load_detector(spec)


@pytest.mark.parametrize(
    ("spec", "meant"), [("genrated", "generated"), ("moot:boxes.txt", "mot:boxes.txt"), ("coco", "coco:PATH")]
)
def test_a_mistyped_name_of_a_detector_is_recognised(spec: str, meant: str) -> None:
    with pytest.raises(UserError, match=f"--detector {spec}: no such file or folder -> did you mean {meant}\\?"):
        load_detector(spec)


def test_the_detector_of_the_package_finds_polyps_of_unseen_generated_procedures(tiny: Path) -> None:
    """Most of the strong boxes are on a polyp, and most polyps are found at least once."""
    boxes = read_coco(tiny, split="test")
    rendered = [row for row, file in enumerate(boxes.file) if (tiny / file).is_file()]
    detector, right, strong, seen = load_detector("generated"), 0, 0, set()
    for row in rendered[::3]:
        picture = decode_image((tiny / boxes.file[row]).read_bytes()).permute(1, 2, 0).contiguous().numpy()
        (actual,) = detector([picture], [0])
        actual = actual[actual[:, 4] >= 0.5]
        overlap = box_iou(actual[:, :4], np.tile(boxes.xywh[row], (len(actual), 1)))
        strong, right = strong + len(actual), right + int((overlap >= 0.5).sum())
        seen |= {boxes.polyp[row]} if (overlap >= 0.5).any() else set()
    assert right > 0.6 * strong > 10
    assert len(seen) >= 2  # of three
