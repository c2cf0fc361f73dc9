"""The video in a DICOM file (Video Endoscopic, Video Photographic): where FFmpeg finds its encapsulated MPEG stream.

pydicom (extra `dicom`) reads the header; nothing of it is kept. FFmpeg reads the stream from the file itself.
"""

import io
import struct
from pathlib import Path
from typing import BinaryIO

from polyptrace.core.errors import UserError

DICOM_SUFFIXES = (".dcm", ".dicom")
MPEG = "1.2.840.10008.1.2.4.10"  # how the transfer syntaxes of MPEG-2, MPEG-4 (H.264) and HEVC begin
ITEM = 0xE000FFFE


def mpeg_address(path: Path) -> str:
    """FFmpeg's address of the video: the fragments of the pixel data, one after the other."""
    try:
        import pydicom
    except ImportError:
        raise UserError(f"{path}: DICOM files need pydicom -> pip install 'polyptrace[dicom]'") from None
    with path.open("rb") as file:
        try:
            header = pydicom.dcmread(file, stop_before_pixels=True)
            syntax = str(header.file_meta.TransferSyntaxUID)
            fragments = _fragments(file) if syntax.startswith(MPEG) else []
        except (pydicom.errors.InvalidDicomError, AttributeError, OSError, struct.error) as error:
            raise UserError(f"{path}: not a readable DICOM file ({error}) -> export the video again") from None
    if not fragments:
        raise UserError(
            f"{path}: has no MPEG video (transfer syntax {syntax}) -> export it as MPEG-4, or as a video file"
        )
    parts = [f"subfile,,start,{start},end,{start + size},,:file:{path}" for start, size in fragments]
    if len(parts) > 1 and "|" in str(path):
        raise UserError(f"{path}: the video has several fragments, and the path a '|' -> rename the file or folder")
    return f"concat:{'|'.join(parts)}" if len(parts) > 1 else parts[0]


def _fragments(file: BinaryIO) -> list[tuple[int, int]]:
    """Offset and size of each fragment, without the offset table; the file is positioned at the pixel data."""
    head = file.read(12)
    if head[:4] != b"\xe0\x7f\x10\x00" or head[8:] != b"\xff\xff\xff\xff":
        return []
    parts = []
    while True:
        tag, size = struct.unpack("<II", file.read(8))
        if tag != ITEM:
            break
        parts.append((file.tell(), size))
        file.seek(size, io.SEEK_CUR)
    return parts[1:]
