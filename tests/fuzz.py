"""Feeds damaged files to every parser: it must return boxes or raise a `UserError`, and must not hang.

    python tests/fuzz.py                            # every parser in turn, 5 seconds each
    python tests/fuzz.py cvat voc --seconds 600     # two parsers, for longer
    python tests/fuzz.py coco --atheris -- -max_total_time=600   # guided by coverage (pip install atheris)

An input that breaks a parser is written to the working folder as `crash-PARSER-SEED`.
"""

import argparse
import importlib
import inspect
import io
import json
import random
import resource
import signal
import sys
import tarfile
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from polyptrace.core.console import console
from polyptrace.core.errors import UserError
from polyptrace.data.crops.images import read_all
from polyptrace.data.sources import SOURCES, read_yolo

LONGEST = 10  # seconds for one small input
MEMORY = 8 * 2**30  # bytes of address space, when run as a command
TOKENS = (
    b"<!DOCTYPE a [<!ENTITY x 'y'>]>", b"&x;", b"<object>", b"</object>", b"<bndbox>", b"<![CDATA[", b"<!--", b"-->",
    b"<?xml version='1.0' encoding='utf-16'?>", b"encoding='cp037'", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\0",
    b"nan", b"inf", b"-1", b"1e999", b"99999999999999999999999", b"-0", b"1_0", b"0x1", b"null", b"true", b"[]", b"{}",
    b'"', b"'", b",", b";", b"\t", b"\r", b"\r\n", b"\n\n", b"../", b"..\\", b"/etc/passwd", b"C:", b"::", b"\\u0000",
    b"\\ud800", b"\xed\xa0\x80", b"frame", b"outside", b"15mm-", b"4 mm", b"banana", b"image_id", b"bbox",
    b"identity_id", b"%s",
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    """A parser with a small valid source for it."""

    read: Callable[[Path], object]
    files: dict[str, bytes]  # content by path in the source
    mutated: tuple[str, ...]  # the files that are damaged


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


def _targets() -> dict[str, Target]:
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
            lambda path: read_yolo(path, image_size=(64, 48)), {"labels/v_1.txt": yolo}, ("labels/v_1.txt",)
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
        "archive": Target(lambda path: list(read_all(path / "a.tar", ".xml")), {"a.tar": _archive()}, ("a.tar",)),
    }


TARGETS = _targets()


def mutate(content: bytes, rng: random.Random) -> bytes:
    """A damaged copy: bytes flipped, cut, doubled, swapped, or replaced by a difficult token."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((0, 1, 2, 8, 64)))
        match rng.randrange(6):
            case 0:
                data[at:end] = rng.choice(TOKENS)
            case 1:
                data[at:end] = rng.randbytes(rng.choice((1, 2, 8)))
            case 2:
                del data[at:end]
            case 3:
                data[at:at] = data[at:end] * rng.choice((1, 2, 50))
            case 4:
                del data[at:]
            case _:
                if at < len(data):
                    data[at] ^= 1 << rng.randrange(8)
    return bytes(data)


def attempt(target: Target, folder: Path, name: str, content: bytes) -> None:
    """Reads the source with one file damaged; any exception but `UserError` is raised."""
    for path, good in target.files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if path == name else good)
    message = ""
    with warnings.catch_warnings(), _limited():
        warnings.simplefilter("ignore")
        try:
            target.read(folder)
            return
        except UserError as error:
            message = str(error)
    assert message.strip(), "an error without a message"


@contextmanager
def _limited() -> Iterator[None]:
    """Turns a hang into an error."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"took longer than {LONGEST} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LONGEST)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def fuzz(parser: str, *, seed: int = 0, seconds: float | None = None, inputs: int | None = None) -> tuple[int, bytes]:
    """Tries inputs until one breaks the parser or time is up; returns (number of inputs, the breaking one or b"")."""
    target = TARGETS[parser]
    rng = random.Random(f"{parser} {seed}")
    until = time.monotonic() + seconds if seconds is not None else float("inf")
    tried = 0
    with tempfile.TemporaryDirectory() as folder:
        while (inputs is None or tried < inputs) and time.monotonic() < until:
            name = rng.choice(target.mutated)
            content = mutate(target.files[name], rng)
            tried += 1
            try:
                attempt(target, Path(folder), name, content)
            except (Exception, RecursionError):
                traceback.print_exc()
                return tried, content
    return tried, b""


def guided(parser: str, arguments: list[str]) -> None:
    """The same with inputs that atheris finds by code coverage."""
    atheris = importlib.import_module("atheris")
    target = TARGETS[parser]
    for name, module in list(sys.modules.items()):
        for part in vars(module).values() if name.startswith("polyptrace.data") else ():
            if inspect.isfunction(part) and part.__module__ == name:
                atheris.instrument_func(part)  # in place
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as corpus:
        (Path(corpus) / "valid").write_bytes(target.files[target.mutated[0]])

        def one(data: bytes) -> None:
            attempt(target, Path(folder), target.mutated[0], data)

        atheris.Setup([sys.argv[0], *arguments, corpus], one)
        atheris.Fuzz()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parsers", nargs="*", help=f"from {', '.join(TARGETS)}; default: all")
    parser.add_argument("--seconds", type=float, default=5, help="for each parser")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument(
        "--atheris", action="store_true", help="guided by coverage; arguments after -- are passed to atheris"
    )
    own, rest = (sys.argv[1:], []) if "--" not in sys.argv else _split_arguments(sys.argv[1:])
    options = parser.parse_args(own)
    console.quiet = True
    if options.atheris:
        guided(options.parsers[0], rest)
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    broken = 0
    for name in options.parsers or TARGETS:
        tried, content = fuzz(name, seed=options.seed, seconds=options.seconds)
        sys.stdout.write(f"{name}: {tried:,} inputs, seed {options.seed}: {'BROKEN' if content else 'fine'}\n")
        if content:
            broken += 1
            Path(f"crash-{name}-{options.seed}").write_bytes(content)
    sys.exit(1 if broken else 0)


def _split_arguments(arguments: list[str]) -> tuple[list[str], list[str]]:
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


if __name__ == "__main__":
    main()
