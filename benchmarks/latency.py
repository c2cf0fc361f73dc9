"""python -m benchmarks latency

Latency of the vector of a running track, from a crop in host memory to the vector in host memory: ResNet-50 at 232 px,
`polyptrace.embed.OnlineTrack` compared with the plain way, which encodes the whole track again each time in float32.

8 new frames    a new track of 8 frames
one more frame  of a track that has 64 frames

For one more frame, the second table gives the time on the device only: the backbone, with the crop on the device, and
the aggregation, with the copy of the vector to the host. The rest is the copy of the crop to the device.
"""

import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch

from benchmarks.result import Result, Row, number_text
from polyptrace.embed import OnlineEncoder, OnlineTrack
from polyptrace.embed.online import LENGTHS
from polyptrace.encoders import TrackletEncoder, prepare_crops

NEW, BEFORE = 8, 64
T = TypeVar("T")


def plain(encoder: TrackletEncoder, device: torch.device, crops: np.ndarray) -> np.ndarray:
    """The vector of a whole track, with every frame encoded again."""
    with torch.inference_mode():
        frames = prepare_crops(torch.from_numpy(crops).to(device), encoder.preprocess)
        return encoder(frames[None])[0].cpu().numpy()


def milliseconds(times: int, function: Callable[[T], object], before: Callable[[], T]) -> np.ndarray:
    """Milliseconds of calls with the result of `before`, which is not counted; the first calls are warm-up."""
    durations = []
    for _ in range(times + min(times, 20)):
        argument = before()
        begun = time.perf_counter()
        function(argument)
        durations.append(1e3 * (time.perf_counter() - begun))
    return np.array(durations[-times:])


def parts_of(online: OnlineEncoder, crop: np.ndarray, times: int) -> dict[str, np.ndarray]:
    """Milliseconds of the backbone and of the aggregation, each synchronised."""
    on_device = torch.from_numpy(crop[None]).to(online.device)
    length = next(length for length in LENGTHS if length > BEFORE)
    with online.replaying():
        features = next(online.features(on_device))
        track = features.new_zeros(length, features.shape[1])

        def backbone(_: None) -> None:
            next(online.features(on_device))
            if online.device.type == "cuda":
                torch.cuda.synchronize(online.device)

        return {
            "· backbone": milliseconds(times, backbone, lambda: None),
            "· aggregation": milliseconds(times, lambda _: online.aggregate(track, BEFORE + 1), lambda: None),
        }


def measure(quick: bool = False) -> Result:
    """Milliseconds at the median and the 95th percentile, ours and plain."""
    backbone, size, times = ("test_resnet", 32, 10) if quick else ("resnet50", 232, 500)
    torch.manual_seed(0)
    encoder = TrackletEncoder(backbone, size=size).eval()
    begun = time.perf_counter()
    online = OnlineEncoder(encoder)
    start = time.perf_counter() - begun
    if online.device.type == "cpu" and not quick:
        times = 10
    encoder.to(online.device)
    crops = np.random.default_rng(0).integers(0, 256, (BEFORE + 1, size, size, 3), np.uint8)
    some = max(2, times // 10)

    def running() -> OnlineTrack:
        track = online.track()
        track.add(crops[:BEFORE])
        return track

    timed = {
        "8 new frames": (
            milliseconds(times, lambda track: track.add(crops[:NEW]), online.track),
            milliseconds(some, lambda all_crops: plain(encoder, online.device, all_crops), lambda: crops[:NEW]),
        ),
        "one more frame": (
            milliseconds(times, lambda track: track.add(crops[BEFORE]), running),
            milliseconds(some, lambda all_crops: plain(encoder, online.device, all_crops), lambda: crops),
        ),
    }
    targets = {"8 new frames": 3.0, "one more frame": 1.0} if not quick else {}
    rows = tuple(
        Row(
            f"vector of a track, {what}",
            "ms",
            float(np.median(ours)),
            float(np.median(other)),
            most=targets.get(what),
            plain_name="encoding the whole track again in float32",
        )
        for what, (ours, other) in timed.items()
    )
    details = [("", "p50 ms", "p95 ms", "plain p50 ms", "plain p95 ms")]
    details += [
        (what, *(number_text(float(np.percentile(each, share))) for each in both for share in (50, 95)))
        for what, both in timed.items()
    ]
    details += [
        (what, *(number_text(float(np.percentile(each, share))) for share in (50, 95)), "", "")
        for what, each in parts_of(online, crops[BEFORE], times).items()
    ]
    note = f"{backbone}, {size} px, {online.precision}; set up in {start:.1f} s, once. {times:,} calls each."
    return Result("latency", rows, note, tuple(details))
