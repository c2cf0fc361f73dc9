"""Crops: what the encoder sees of each box, from the picture to the memory-mapped store."""

from typing import TYPE_CHECKING

from polyptrace.core.lazy import lazy_names

if TYPE_CHECKING:
    from polyptrace.data.crops.archives import first_file, read_all, read_members
    from polyptrace.data.crops.cutting import fill_store
    from polyptrace.data.crops.field import field_mask
    from polyptrace.data.crops.loader import CropLoader, to_device
    from polyptrace.data.crops.pictures import VIDEO_ENDS, container, files_hash, is_video
    from polyptrace.data.crops.regions import crop_regions, cut_crop
    from polyptrace.data.crops.resize import resize_crops, resize_frames
    from polyptrace.data.crops.store import BadPicture, Fill, PartialStore
    from polyptrace.data.crops.videos import (
        FramePosition,
        all_frames,
        read_frames,
        sample_frames,
        video_info,
        write_video,
    )

__all__ = [
    "VIDEO_ENDS",
    "BadPicture",
    "CropLoader",
    "Fill",
    "FramePosition",
    "PartialStore",
    "all_frames",
    "container",
    "crop_regions",
    "cut_crop",
    "field_mask",
    "files_hash",
    "fill_store",
    "first_file",
    "is_video",
    "read_all",
    "read_frames",
    "read_members",
    "resize_crops",
    "resize_frames",
    "sample_frames",
    "to_device",
    "video_info",
    "write_video",
]

__getattr__ = lazy_names(
    __name__, "archives", "cutting", "field", "loader", "pictures", "regions", "resize", "store", "videos"
)
