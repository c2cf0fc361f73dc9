"""Every parser under hypothesis and under the fuzzer (`tests/fuzz.py`), for a short while."""

import importlib.util
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("polyptrace_fuzz", Path(__file__).parents[2] / "fuzz.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


fuzzer = _load()
SHARED_FOLDER = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.mark.parametrize("parser", fuzzer.TARGETS)
def test_the_undamaged_source_is_read(tmp_path: Path, parser: str) -> None:
    target = fuzzer.TARGETS[parser]
    for name, content in target.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    assert len(target.read(tmp_path)) > 0


@pytest.mark.parametrize("parser", fuzzer.TARGETS)
@given(content=st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
@SHARED_FOLDER
def test_any_bytes_give_boxes_or_our_error(tmp_path: Path, parser: str, content: bytes) -> None:
    target = fuzzer.TARGETS[parser]
    for name in target.mutated:
        fuzzer.attempt(target, tmp_path, name, content)


@pytest.mark.parametrize("parser", fuzzer.TARGETS)
def test_damaged_files_give_boxes_or_our_error(parser: str) -> None:
    tried, broke_it = fuzzer.fuzz(parser, seed=1, inputs=60)
    assert (tried, broke_it) == (60, b"")


def test_the_fuzzer_notices_a_parser_that_breaks(monkeypatch) -> None:
    def fragile(path: Path) -> None:
        if b"\0" in (path / "f").read_bytes():
            raise ValueError("broken")

    monkeypatch.setitem(fuzzer.TARGETS, "fragile", fuzzer.Target(fragile, {"f": b"some text here"}, ("f",)))
    tried, broke_it = fuzzer.fuzz("fragile", seed=0, inputs=2000)
    assert tried < 2000
    assert b"\0" in broke_it


def test_the_fuzzer_notices_a_parser_that_hangs(monkeypatch) -> None:
    monkeypatch.setattr(fuzzer, "LONGEST", 1)
    monkeypatch.setitem(fuzzer.TARGETS, "slow", fuzzer.Target(lambda _: time.sleep(5), {"f": b"text"}, ("f",)))
    began = time.monotonic()
    assert fuzzer.fuzz("slow", seed=0, inputs=1)[1]
    assert time.monotonic() - began < 4
