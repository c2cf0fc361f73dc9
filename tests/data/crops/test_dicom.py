"""Videos inside DICOM files."""

from pathlib import Path

import numpy as np
import pytest

from polyptrace.core.errors import UserError
from polyptrace.data.crops.videos import all_frames, read_frames, video_info, write_video
from polyptrace.detect import detect
from tests.detect.conftest import HEIGHT, WIDTH, Numbered, pictures

pytest.importorskip("av")
pydicom = pytest.importorskip("pydicom")

H264 = "1.2.840.10008.1.2.4.102"


def dicom(path: Path, fragments: list[bytes], syntax: str = H264) -> Path:
    """A Video Endoscopic object with a name in its header."""
    meta = pydicom.dataset.FileMetaDataset()
    meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.77.1.1.1"
    meta.MediaStorageSOPInstanceUID = pydicom.uid.generate_uid()
    meta.TransferSyntaxUID = syntax
    data = pydicom.dataset.FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    data.PatientName, data.Rows, data.Columns, data.NumberOfFrames = "DOE^JANE", HEIGHT, WIDTH, 60
    data.PixelData = pydicom.encaps.encapsulate(fragments)
    data["PixelData"].is_undefined_length = True
    data.save_as(path, enforce_file_format=True)
    return path


def cut(video: Path, parts: int) -> list[bytes]:
    content = video.read_bytes()
    content += b"\0" * (len(content) % 2)
    step = len(content) // parts // 2 * 2
    return [content[n * step : (n + 1) * step if n < parts - 1 else None] for n in range(parts)]


@pytest.mark.parametrize("parts", [1, 3, 1500])  # 1500: more than a process may open files
def test_a_dicom_video_is_read_like_the_video_inside(tmp_path: Path, parts: int) -> None:
    plain = tmp_path / "plain.mp4"
    write_video(plain, pictures(60))
    wrapped = dicom(tmp_path / "wrapped.dcm", cut(plain, parts))
    assert video_info(wrapped) == video_info(plain)
    expected = [picture for _, picture in all_frames(plain)]
    actual = list(all_frames(wrapped))
    assert len(actual) == 60
    assert all(np.array_equal(one, other) for (_, one), other in zip(actual, expected, strict=True))
    resumed = list(all_frames(wrapped, actual[40][0]))
    assert [position for position, _ in resumed] == [position for position, _ in actual[40:]]
    assert [position.frame for position, _ in read_frames(wrapped, [5, 59])] == [5, 59]
    made = detect(wrapped, Numbered(), tmp_path / "out")
    assert (made.frames, made.boxes) == (60, 60)
    assert not any(b"DOE" in file.read_bytes() for file in (tmp_path / "out").iterdir() if not file.is_symlink())


@pytest.mark.parametrize("name", ["a, b:c.dcm", "http:a.dcm", "file:a.dcm", "%20#?.dcm"])
def test_a_name_that_looks_like_an_address_is_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    plain = Path(name.replace(".dcm", ".mp4"))
    write_video(plain, pictures(6))
    for parts in (1, 2):
        assert video_info(dicom(Path(name), cut(plain, parts))) == video_info(plain)


def test_a_file_without_a_video_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "text.dcm").write_text("not DICOM")
    with pytest.raises(UserError, match=r"text\.dcm: not a readable DICOM file"):
        video_info(tmp_path / "text.dcm")
    still = dicom(tmp_path / "still.dcm", [b"\xff\xd8\xff\xd9"], "1.2.840.10008.1.2.4.50")
    with pytest.raises(UserError, match=r"still\.dcm: has no MPEG video \(transfer syntax 1\.2\.840"):
        video_info(still)
    with pytest.raises(UserError, match=r"missing\.dcm: no such file"):
        video_info(tmp_path / "missing.dcm")
