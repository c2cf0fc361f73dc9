"""The video in a DICOM file (Video Endoscopic, Video Photographic): its encapsulated MPEG stream as an open file.

pydicom (extra `dicom`) reads the header; nothing of it is kept. The stream is read from the file where it is needed, so
that a recording of any length takes no memory.
"""

import io
import struct
from pathlib import Path
from typing import BinaryIO

from polyptrace.core.errors import UserError

DICOM_SUFFIXES = (".dcm", ".dicom")
MPEG = "1.2.840.10008.1.2.4.10"  # how the transfer syntaxes of MPEG-2, MPEG-4 (H.264) and HEVC begin
ITEM = 0xE000FFFE


class DicomVideo(io.RawIOBase):
    """The fragments of the pixel data, one after the other, as a file that can be read and sought."""

    def __init__(self, path: Path) -> None:
        try:
            import pydicom
        except ImportError:
            raise UserError(f"{path}: DICOM files need pydicom -> pip install 'polyptrace[dicom]'") from None
        self._file: BinaryIO = path.open("rb")
        try:
            header = pydicom.dcmread(self._file, stop_before_pixels=True)
            syntax = str(header.file_meta.TransferSyntaxUID)
            parts = list(_fragments(self._file)) if syntax.startswith(MPEG) else []
        except (pydicom.errors.InvalidDicomError, AttributeError, OSError, struct.error) as error:
            self._file.close()
            raise UserError(f"{path}: not a readable DICOM file ({error}) -> export the video again") from None
        if not parts:
            self._file.close()
            raise UserError(
                f"{path}: has no MPEG video (transfer syntax {syntax}) -> export it as MPEG-4, or as a video file"
            )
        self._parts, self._at = parts, 0
        self._size = sum(size for _, size in parts)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence])
        return self._at

    def read(self, size: int = -1) -> bytes:
        """The next bytes, at most up to the end of a fragment."""
        start = 0
        for offset, length in self._parts:
            if self._at < start + length:
                inside = self._at - start
                self._file.seek(offset + inside)
                content = self._file.read(length - inside if size < 0 else min(size, length - inside))
                self._at += len(content)
                return content
            start += length
        return b""

    def close(self) -> None:
        self._file.close()
        super().close()


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
