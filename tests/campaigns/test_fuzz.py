"""Every parser with any bytes, and whether the fuzzer notices a reader that breaks."""

import os
import random
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from campaigns import fuzz
from campaigns.damage import damaged
from campaigns.fuzz import Target, attempt
from campaigns.parsers import parser_targets

TARGETS = parser_targets()
SHARED_FOLDER = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.mark.parametrize("parser", TARGETS)
def test_the_undamaged_source_is_read(tmp_path: Path, parser: str) -> None:
    target = TARGETS[parser]
    target.write(tmp_path / "in")
    assert len(target.read(tmp_path / "in")) > 0  # type: ignore[arg-type]


@pytest.mark.parametrize("parser", TARGETS)
@given(content=st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
@SHARED_FOLDER
def test_any_bytes_give_boxes_or_our_error(tmp_path: Path, parser: str, content: bytes) -> None:
    for name in TARGETS[parser].mutated:
        attempt(TARGETS[parser], tmp_path / "in", name, content)


@pytest.mark.parametrize("parser", TARGETS)
def test_damaged_files_give_boxes_or_our_error(tmp_path: Path, parser: str) -> None:
    target, rng = TARGETS[parser], random.Random(1)
    for _ in range(60):
        name = rng.choice(target.mutated)
        attempt(target, tmp_path / "in", name, damaged(name, target.files[name], rng))


def fragile(path: Path) -> None:
    if (path / "f").read_bytes() != b"text":
        raise ValueError("broken")


def wasteful(path: Path) -> None:
    if (path / "f").read_bytes() != b"text":
        bytearray(3 * 2**30)


def crashing(path: Path) -> None:
    if (path / "f").read_bytes() != b"text":
        os._exit(7)


@pytest.mark.parametrize(
    ("read", "message"), [(fragile, "ValueError: broken"), (wasteful, "MemoryError"), (crashing, "ended with 7")]
)
def test_the_campaign_reports_a_reader_that_breaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: object, message: str
) -> None:
    target = Target(read, {"f": b"text"}, ("f",))  # type: ignore[arg-type]
    monkeypatch.setattr("campaigns.parsers.parser_targets", lambda: {"it": target})
    monkeypatch.setattr("campaigns.own_files.own_targets", lambda *_: {})
    actual = fuzz.campaign(tmp_path, tmp_path, 60, 2, random.Random(0), [])
    assert any(message in failure for failure in actual.failures)
    assert actual.counts["it"]["failed"] > 0


def test_a_reader_that_hangs_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "LONGEST", 1)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        attempt(Target(lambda _: time.sleep(60), {"f": b"text"}, ("f",)), tmp_path / "in", "f", b"")
    assert time.monotonic() - began < 30
