"""The built package has everything that the program reads: pages, tables, and the models that come with it."""

import subprocess
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def source_files() -> set[str]:
    """All files of the package that are tracked, relative to `src`."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src/polyptrace"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    files = {name.removeprefix("src/") for name in listed if (ROOT / name).is_file()}
    assert {"polyptrace/pretrained/default/model.safetensors", "polyptrace/pretrained/generated/detector.onnx"} <= files
    return files


def test_the_wheel_has_every_file_of_the_package(source_files: set[str], tmp_path: Path) -> None:
    wheel = pytest.importorskip("hatchling.builders.wheel").WheelBuilder(str(ROOT))
    (built,) = wheel.build(directory=str(tmp_path), versions=["standard"])
    with ZipFile(built) as archive:
        names = set(archive.namelist())
    assert source_files <= names
    assert not {name for name in names if not name.startswith("polyptrace")}


def test_the_source_archive_has_every_file_of_the_package(source_files: set[str], tmp_path: Path) -> None:
    archive = pytest.importorskip("hatchling.builders.sdist").SdistBuilder(str(ROOT))
    (built,) = archive.build(directory=str(tmp_path), versions=["standard"])
    with tarfile.open(built) as files:
        names = {name.partition("/src/")[2] for name in files.getnames()}
    assert source_files <= names
