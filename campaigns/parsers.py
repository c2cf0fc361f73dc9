"""Small valid files of every annotation format and media type, each with its reader."""

import io
import json
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image

from campaigns.fuzz import Target
from polyptrace.config import Crops
from polyptrace.data import Boxes
from polyptrace.data.crops.filling import fill_store
from polyptrace.data.crops.images import read_all
from polyptrace.data.crops.videos import read_frames, video_info
from polyptrace.data.sources import SOURCES


def _voc(name: str, *, tags: str = "") -> bytes:
    box = "<xmin>3</xmin><ymin>4</ymin><xmax>10.5</xmax><ymax>20</ymax>"
    boxes = f"<object>\n<name>adenomatous</name>{tags}<bndbox>{box}</bndbox>\n</object>\n" * 2
    size = "<size><width>64</width><height>48</height><depth>3</depth></size>"
    return f"<annotation>\n<filename>{name}.jpg</filename>\n{size}\n{boxes}</annotation>\n".encode()


def _coco() -> bytes:
    images = [
        {
            "id": k,
            "file_name": f"v_{k}.jpg",
            "width": 64,
            "height": 48,
            "frame_id": k,
            "sequence_id": "v",
            "video_id": 1,
        }
        for k in range(3)
    ]
    label = {"identity_id": "v_1", "instance_id": 7, "size": "4 mm", "histology": "AD", "score": 0.5}
    boxes = [{"id": k, "image_id": k, "bbox": [1, 2.5, 3, 4], **label} for k in range(3)]
    return json.dumps({"videos": [{"id": 1, "name": "v", "fps": 25}], "images": images, "annotations": boxes}).encode()


def _cvat() -> bytes:
    meta = "<meta><task><name>v</name><start_frame>0</start_frame><frame_filter>step=2</frame_filter><original_size>"
    meta += "<width>64</width><height>48</height></original_size><source>v.mp4</source></task></meta>"
    box = '<box frame="{}" outside="{}" xtl="1" ytl="2" xbr="30" ybr="40.5"><attribute name="size">4</attribute></box>'
    boxes = "".join(box.format(k, int(k == 2)) for k in range(3))
    return f'<?xml version="1.0"?>\n<annotations>{meta}<track id="1">{boxes}</track></annotations>'.encode()


def _archive() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("a/1.xml", "a/2.xml"):
            entry = tarfile.TarInfo(name)
            entry.size = 3
            archive.addfile(entry, io.BytesIO(b"<a>"))
    return buffer.getvalue()


def _image(kind: str) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, (24, 32, 3), np.uint8)
    Image.fromarray(pixels).save(buffer := io.BytesIO(), kind)
    return buffer.getvalue()


def _crops(folder: Path) -> list[object]:
    boxes = Boxes.of(video="v", frame_index=[0, 1], xywh=[(4, 4, 8, 8)] * 2, file=["a.png", "a.jpg"])
    return [*fill_store(folder / "crops.npy", boxes, folder, Crops(size=8, workers=1)), "filled"]


def _video() -> bytes:
    import av

    pixels = np.random.default_rng(0).integers(0, 256, (8, 32, 48, 3), np.uint8)
    with av.open(buffer := io.BytesIO(), "w", "mp4") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 48, 32, "yuv420p"
        for picture in pixels:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    return buffer.getvalue()


def _frames(folder: Path) -> list[object]:
    info = video_info(folder / "a.mp4")
    return [info, *read_frames(folder / "a.mp4", range(8))]


def parser_targets() -> dict[str, Target]:
    """One target per format. Sources with several files are damaged in any of them."""
    coco, rc = _coco(), _voc("001-001_7", tags="<unique_id>001-001_1</unique_id>")
    lesions = b"unique_object_id,unique_video_name,size [mm],histology_class\n001-001_1,001-001,4,AD\n"
    videos = b"unique_video_name,fps\n001-001,29.97\n"
    sun = b"case_M_1_a1_ayy_image0001.jpg 408,545,568,722,0\ncase_M_1_a2_ayy_image0001.jpg 1,2,3,4,0 5,6,7,8,1\n"
    mot = b"1,1,478,17,27,44,1,-1,-1,-1\n2,1,467.5,9,32,53,1,-1,-1,-1\n3,-1,467,9,32,53,0.5,-1,-1,-1\n"
    seqinfo = b"[Sequence]\nname=x\nimDir=img1\nframeRate=25\nimWidth=560\nimHeight=480\nimExt=.jpg\n"
    yolo = b"0 0.5 0.5 0.25 0.25 0.9 1\n0 0.1 0.2 0.1 0.1 0.8 2\n"
    labels = b"Video_ID,Polyp_Size,Pathology\nVideo01,11.74mm,Tubular Adenoma\n"
    results = b'[{"image_id": 1, "bbox": [1, 2, 3, 4], "score": 0.5}]'
    table = "Polyp_Size_Lables.csv"
    return {
        "mot": Target(SOURCES["mot"], {"c/gt/gt.txt": mot, "c/seqinfo.ini": seqinfo}, ("c/gt/gt.txt", "c/seqinfo.ini")),
        "coco": Target(SOURCES["coco"], {"instances_a.json": coco}, ("instances_a.json",)),
        "results": Target(
            lambda path: SOURCES["coco"](path / "instances_a.json", results=path / "r.json"),
            {"instances_a.json": coco, "r.json": results},
            ("r.json",),
        ),
        "cocovid": Target(SOURCES["cocovid"], {"instances_a.json": coco}, ("instances_a.json",)),
        "cvat": Target(SOURCES["cvat"], {"a.xml": _cvat()}, ("a.xml",)),
        "voc": Target(SOURCES["voc"], {"v/1.xml": _voc("1", tags="<track_id>3</track_id>")}, ("v/1.xml",)),
        "yolo": Target(
            lambda path: SOURCES["yolo"](path, image_size=(64, 48)), {"labels/v_1.txt": yolo}, ("labels/v_1.txt",)
        ),
        "realcolon": Target(
            SOURCES["realcolon"],
            {"001-001_annotations/001-001_7.xml": rc, "lesion_info.csv": lesions, "video_info.csv": videos},
            ("001-001_annotations/001-001_7.xml", "lesion_info.csv", "video_info.csv"),
        ),
        "sun": Target(SOURCES["sun"], {"annotation_txt/case1.txt": sun}, ("annotation_txt/case1.txt",)),
        "polypsize": Target(SOURCES["polypsize"], {"Video01_frame0001.xml": _voc("x"), table: labels}, (table,)),
        "polypsset": Target(
            SOURCES["polypsset"], {"val2019/Annotation/1/1.xml": _voc("1")}, ("val2019/Annotation/1/1.xml",)
        ),
        "image": Target(_crops, {"a.png": _image("png"), "a.jpg": _image("jpeg")}, ("a.png", "a.jpg")),
        "video": Target(_frames, {"a.mp4": _video()}, ("a.mp4",)),
        "archive": Target(lambda path: list(read_all(path / "a.tar", ".xml")), {"a.tar": _archive()}, ("a.tar",)),
    }
