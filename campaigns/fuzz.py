"""Damaged files for every reader: it must accept them or raise a `UserError`, within 10 s and 2 GiB.

The cases of a reader run in a forked process with a memory limit, so that a crash or a hang ends only that process.
"""

import os
import pickle
import random
import resource
import shutil
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from campaigns.damage import damaged
from campaigns.findings import Findings
from campaigns.forked import exit_code
from polyptrace.core.console import console, output
from polyptrace.core.errors import UserError

LONGEST = 10  # seconds for one case
MEMORY = 2 * 2**30  # bytes that a case may add
BATCH = 25  # cases in one process


@dataclass(frozen=True)
class Target:
    """A reader with a small valid input for it."""

    read: Callable[[Path], object]
    files: dict[str, bytes]  # content by path
    mutated: tuple[str, ...]  # the files that are damaged

    def write(self, folder: Path, name: str = "", content: bytes = b"") -> None:
        """Writes the input into a new folder, with another content of one file."""
        shutil.rmtree(folder, ignore_errors=True)
        for path, good in self.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content if path == name else good)


def attempt(target: Target, folder: Path, name: str, content: bytes) -> bool:
    """Reads the input with one damaged file; whether it was accepted. Any error but `UserError` is raised."""
    target.write(folder, name, content)
    before = signal.signal(signal.SIGALRM, _stop)
    signal.alarm(LONGEST)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.read(folder)
        return True
    except UserError:
        return False
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise TimeoutError(f"took longer than {LONGEST} s")


def campaign(folder: Path, inputs: Path, seconds: float, cases: int, rng: random.Random, names: list[str]) -> Findings:
    """Reads damaged files until the time is over, or `cases` for each reader; returns counts and failures."""
    from campaigns.own_files import own_targets
    from campaigns.parsers import parser_targets

    targets = {**parser_targets(), **own_targets(inputs, folder)}
    targets = {name: target for name, target in targets.items() if name in (names or targets)}
    findings, until = Findings(), time.monotonic() + seconds
    while time.monotonic() < until and (left := [n for n in targets if findings.counts[n]["cases"] < cases]):
        for name in left:
            if time.monotonic() > until:
                break
            size = min(BATCH, cases - findings.counts[name]["cases"])
            count, failure = _batch(targets[name], folder / "fuzz", rng.randrange(2**32), size)
            findings.counts[name] += count
            if failure:
                findings.fail(name, failure)
    return findings


def _batch(target: Target, folder: Path, seed: int, size: int) -> tuple[Counter[str], str]:
    """Runs some cases in a forked process; returns their counts, and the first failure or ""."""
    record = folder.with_name("fuzz.pickle")
    code = exit_code(lambda: _cases(target, folder, random.Random(seed), size, record), LONGEST * (size + 5))
    count, last, error = pickle.loads(record.read_bytes())
    if code and not error:
        error = f"the process ended with {code}"
    return count, f"seed {seed}, {last}: {error}" if error else ""


def _cases(target: Target, folder: Path, rng: random.Random, size: int, record: Path) -> None:
    console.quiet = output.quiet = True
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    count, error, last = Counter[str](), "", "undamaged"
    try:
        if not attempt(target, folder, "", b""):
            raise RuntimeError("the undamaged input is refused")
        for _ in range(size):
            name = rng.choice(target.mutated)
            content = damaged(name, target.files[name], rng)
            count["cases"] += 1
            last = f"case {count['cases']}, {name}: {content[:200]!r}"
            record.write_bytes(pickle.dumps((count, last, "")))
            count["accepted" if attempt(target, folder, name, content) else "refused"] += 1
    except BaseException:  # anything but a `UserError` is a failure
        error = traceback.format_exc(limit=-4)
    record.write_bytes(pickle.dumps((count, last, error)))
    os._exit(0)
