"""Archives as downloaded: one pass, nothing unpacked, nothing but files accepted."""

import io
import random
import tarfile
from pathlib import Path

import pytest

from polyptrace.core.errors import UserError
from polyptrace.data.crops.images import first_file, read_all, read_images


def write_archive(path: Path, entries: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for entry, content in entries:
            archive.addfile(entry, io.BytesIO(content))
    return path


def regular(name: str, content: bytes) -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    return entry, content


def special(name: str, kind: bytes, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry, b""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    folder = special("./001-001_frames", tarfile.DIRTYPE)
    members = [regular(f"./001-001_frames/001-001_{i}.jpg", bytes([i]) * (i + 1)) for i in range(30)]
    return write_archive(tmp_path / "001-001_frames.tar.gz", [folder, *members])


def frames(archive: Path, *numbers: int) -> list[tuple[str, int]]:
    return [(f"{archive.name}::001-001_frames/001-001_{i}.jpg", i) for i in numbers]


def test_requested_members_are_read_in_the_order_of_the_archive(archive: Path) -> None:
    actual = read_images(archive.parent, frames(archive, 20, 3, 11))
    assert [frame for _, frame, _ in actual] == [3, 11, 20]


def test_reading_can_be_cancelled(archive: Path) -> None:
    passed = []

    def on_image(_: object) -> None:
        passed.append(1)
        if len(passed) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(read_images(archive.parent, frames(archive, 20), on_image))


def test_missing_members_are_reported(archive: Path) -> None:
    ((_, frame, problem),) = read_images(archive.parent, frames(archive, 99))
    assert frame == 99
    assert "not in its archive" in problem


def test_reading_ends_after_the_last_requested_member(tmp_path: Path) -> None:
    noise = [regular(f"{i}.jpg", random.Random(i).randbytes(600_000)) for i in range(6)]
    path = write_archive(tmp_path / "large.tar.gz", noise)
    path.write_bytes(path.read_bytes()[:-30])  # damage after what is wanted
    ((_, _, problem),) = read_images(tmp_path, [("large.tar.gz::1.jpg", 1)])
    assert "cannot be decoded" in problem  # noise
    with pytest.raises(UserError, match="download it again"):
        list(read_images(tmp_path, [("large.tar.gz::1.jpg", 1), ("large.tar.gz::5.jpg", 5)]))


def test_files_of_one_ending_and_the_first_file(archive: Path) -> None:
    assert list(read_all(archive, ".jpg")) == [
        (f"001-001_frames/001-001_{i}.jpg", bytes([i]) * (i + 1)) for i in range(30)
    ]
    assert list(read_all(archive, ".xml")) == []
    assert first_file(archive) == "001-001_frames/001-001_0.jpg"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (special("a/link.jpg", tarfile.SYMTYPE, "/etc/passwd"), "is a link"),
        (special("a/link.jpg", tarfile.SYMTYPE, "../../out"), "is a link"),
        (special("a/hard.jpg", tarfile.LNKTYPE, "/etc/passwd"), "is a link"),
        (special("a/device", tarfile.CHRTYPE), "is a device"),
        (special("a/pipe", tarfile.FIFOTYPE), "is a device"),
        (regular("../../evil.jpg", b"x"), "leaves the archive"),
        (regular("/etc/evil.jpg", b"x"), "leaves the archive"),
        (regular("a\\..\\evil.jpg", b"x"), "leaves the archive"),
    ],
)
def test_links_devices_and_names_that_leave_the_archive_are_refused(
    tmp_path: Path, entry: tuple[tarfile.TarInfo, bytes], message: str
) -> None:
    write_archive(tmp_path / "bad.tar.gz", [entry, regular("a/1.jpg", b"1")])
    with pytest.raises(UserError, match=rf"bad\.tar\.gz: member .* {message}"):
        list(read_images(tmp_path, [("bad.tar.gz::a/1.jpg", 1)]))


@pytest.mark.parametrize("kept", [0, 10, 200, -4])
def test_an_archive_that_ends_early_is_a_clear_error(archive: Path, kept: int) -> None:
    archive.write_bytes(archive.read_bytes()[:kept])
    with pytest.raises(UserError, match="damaged or not a tar archive"):
        list(read_all(archive, ".jpg"))


def test_a_plain_tar_cut_between_two_members_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "plain.tar"
    with tarfile.open(path, "w") as archive:
        for name in ("a.jpg", "b.jpg"):
            archive.addfile(*(regular(name, b"x" * 512)[0], io.BytesIO(b"x" * 512)))
    path.write_bytes(path.read_bytes()[:1024])
    with pytest.raises(UserError, match="ends early"):
        list(read_all(path, ".jpg"))


def test_a_member_too_large_for_an_image_is_refused_before_it_is_read(tmp_path: Path) -> None:
    entry, _ = regular("bomb.jpg", b"")
    entry.size = 2**40
    path = tmp_path / "bomb.tar"
    path.write_bytes(entry.tobuf(tarfile.GNU_FORMAT) + b"\0" * 1024)
    with pytest.raises(UserError, match="too large"):
        list(read_images(tmp_path, [("bomb.tar::bomb.jpg", 0)]))
