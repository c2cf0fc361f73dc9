"""One process at a time writes an output; the lock of a killed process does not block the next one."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from polyptrace.core.lock import InUseError, lock, owner_ended, owner_tag

HOLDER = """
import sys
from pathlib import Path
from polyptrace.core.lock import lock
with lock(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


def start_holder(out: Path) -> "subprocess.Popen[str]":
    """A process that holds the lock of `out` until its input is closed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, out], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stdout.readline() == "locked\n"
    return process


def test_a_second_process_is_refused_by_name_until_the_first_has_ended(tmp_path: Path) -> None:
    out = tmp_path / "new/out"
    process = start_holder(out)
    with pytest.raises(InUseError, match=rf"out: in use by process {process.pid} on .*, since 2.* -> "), lock(out):
        pass
    with lock(tmp_path / "new/other"):
        pass
    process.communicate()
    with lock(out):
        pass
    assert not list(tmp_path.rglob(".*"))


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    process = start_holder(tmp_path / "out")
    process.kill()
    process.wait()
    assert (tmp_path / ".out.lock").exists()
    with lock(tmp_path / "out"):
        assert f"process {os.getpid()} on " in (tmp_path / ".out.lock").read_text()
    assert not (tmp_path / ".out.lock").exists()


def test_a_lock_whose_folder_was_replaced_does_not_remove_the_lock_of_another_process(tmp_path: Path) -> None:
    with lock(tmp_path / "folder/out"):
        (tmp_path / "folder").rename(tmp_path / "replaced")
        process = start_holder(tmp_path / "folder/out")
    with pytest.raises(InUseError, match=f"process {process.pid} "), lock(tmp_path / "folder/out"):
        pass
    process.communicate()


def test_a_process_cannot_take_its_own_lock_twice_and_keeps_it(tmp_path: Path) -> None:
    with lock(tmp_path / "out"):
        with pytest.raises(InUseError, match=f"process {os.getpid()}"), lock(tmp_path / "out"):
            pass
        other = subprocess.run(
            [sys.executable, "-c", HOLDER, tmp_path / "out"],
            stdin=subprocess.DEVNULL,
            text=True,
            capture_output=True,
            check=False,
        )
        assert "InUseError" in other.stderr


def test_without_locks_of_the_file_system_the_named_process_is_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    process = start_holder(tmp_path / "out")
    monkeypatch.setattr(fcntl, "lockf", unsupported)
    with pytest.raises(InUseError, match=f"process {process.pid}"), lock(tmp_path / "out"):
        pass
    process.kill()
    process.wait()
    with lock(tmp_path / "out"):
        pass


def test_a_read_only_folder_needs_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", refuse)
    with lock(tmp_path / "out"):
        assert not list(tmp_path.iterdir())


def test_an_owner_has_ended_if_its_process_is_gone_a_zombie_or_another_one() -> None:
    host, pid, started = owner_tag().split("-")
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie until it is waited for
    assert owner_ended(f".a.{host}-{process.pid}-{started}.partial")
    process.wait()
    assert owner_ended(f".a.{host}-{process.pid}-{started}.partial")
    assert owner_ended(f".a.{host}-{pid}-{int(started) - 1}.partial")  # the id is used again
    assert not owner_ended(f".a.{owner_tag()}.partial")
    assert not owner_ended(f".a.00000000-{process.pid}-{started}.partial")  # another host
    assert not owner_ended(".a.partial")
