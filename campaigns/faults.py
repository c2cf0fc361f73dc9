"""Lets a file operation of a command fail, and runs the command again without the fault.

A command must say in one line what failed and keep an old output. The restart must give the output of an undisturbed
run and leave nothing else. The faults: an operation that fails (no space, input/output error, read-only), a limit of
the file size and, if a tmpfs can be mounted (this needs root), a disk of a few bytes and a read-only disk.
"""

import ctypes
import errno
import os
import pickle
import random
import resource
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from campaigns.commands import COMMANDS, new_case, run
from campaigns.findings import Findings
from campaigns.operations import intercept
from campaigns.undisturbed import Undisturbed, disturb

#: The error numbers with which each kind of operation fails.
ERRORS = {
    "rename": (errno.EIO, errno.EACCES),
    "exchange": (errno.EIO, errno.EACCES),
    "fsync": (errno.EIO, errno.ENOSPC),
    "make": (errno.ENOSPC, errno.EROFS),
    "open": (errno.ENOSPC, errno.EROFS),
}
CLONE_NEWNS, MS_REC_PRIVATE, MS_REMOUNT, MS_RDONLY = 0x20000, 0x44000, 32, 1
LARGE = 2**28  # bytes


@dataclass(frozen=True)
class Fault:
    """One fault: `kind`, the number of the operation or the size in bytes, and the error."""

    kind: str  # operation, limit, full disk or read-only disk
    number: int = 0
    error: int = 0


def campaign(folder: Path, inputs: Path, seconds: float, cases: int, rng: random.Random, names: list[str]) -> Findings:
    """Tries faults until the time is over or each command had `cases`; returns counts and failures."""
    return disturb(folder, inputs, seconds, cases, names, lambda each: _plan(each, rng), _isolated)


def _plan(each: Undisturbed, rng: random.Random) -> Iterator[Fault]:
    """Each operation with each of its errors in random order, with the other faults in between; then again."""
    size = sum(len(value) for value in each.expected.values() if isinstance(value, bytes))
    while True:
        aimed = [
            Fault("operation", number, error)
            for number, kind in enumerate(each.operations, 1)
            for error in ERRORS.get(kind, ())
        ]
        rng.shuffle(aimed)
        for fault in aimed:
            yield fault
            yield Fault(rng.choice(("full disk", "full disk", "limit", "limit", "read-only disk")), rng.randrange(size))


def _isolated(each: Undisturbed, case: Path, inputs: Path, fault: Fault) -> tuple[str, str]:
    """Makes an attempt in a forked process, whose mounts end with it; returns its outcome and what is wrong, or ""."""
    sys.stdout.flush()
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        try:
            os.write(writer, pickle.dumps(_attempt(each, case, inputs, fault)))
        except BaseException as error:  # reported by the parent
            os.write(writer, pickle.dumps(("failed", f"the campaign itself: {error!r}")))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        outcome, problem = pickle.loads(file.read())
    os.waitpid(process, 0)
    return f"{fault.kind}: {outcome}", problem


def _attempt(each: Undisturbed, case: Path, inputs: Path, fault: Fault) -> tuple[str, str]:
    """Runs a command with a fault and then without; returns the outcome and what is wrong, or ""."""
    shutil.rmtree(case, ignore_errors=True)
    case.mkdir()
    began = sum(path.stat().st_size for path in (inputs / "vectors").iterdir())
    began += sum(path.stat().st_size for path in each.old.rglob("*")) if each.old else 0
    disk = fault.kind in ("full disk", "read-only disk")
    if disk and not _mount(case, LARGE):
        return "not possible here", ""
    new_case(case, inputs, each.old)
    words = COMMANDS[each.name].words(inputs, case, each.more)
    if fault.kind == "full disk":
        _mount(case, began + 2**15 + fault.number, MS_REMOUNT)
    elif fault.kind == "read-only disk":
        _mount(case, LARGE, MS_REMOUNT | MS_RDONLY)
    ended = run(words, lambda: _begin(fault, case))
    if disk:
        _mount(case, LARGE, MS_REMOUNT)
    if not ended.clean:
        return "failed", f"ended with {ended.code}: {ended.text[-1500:]}"
    if ended.code and each.overwrite and (problem := each.incomplete(case / "out/it")):
        return "failed", problem
    if ended.code:
        again = run(words)
        if again.code:
            return "failed", f"the restart ended with {again.code}: {again.text[-1500:]}"
    if problem := each.unequal(case):
        return "failed", problem
    return ("error" if ended.code else "no effect"), ""


def _begin(fault: Fault, case: Path) -> None:
    """Arranges the fault in the process of the command."""

    def fail(number: int, _kind: str, path: str, over: bool) -> None:
        if number == fault.number and not over:
            raise OSError(fault.error, os.strerror(fault.error), path)

    if fault.kind == "operation":
        intercept(case, fail)
    elif fault.kind == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (fault.number, resource.RLIM_INFINITY))


def _mount(folder: Path, size: int, flags: int = 0) -> bool:
    """Mounts, or remounts, a tmpfs of this size that only this process and its children see."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not flags and libc.unshare(CLONE_NEWNS):
        return False
    if not flags:
        libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None)
    failed = libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", flags, f"size={size},mode=755".encode())
    return not failed
