import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

WAITING = """
import sys
from importlib import import_module
from polyptrace.cli import main

def wait(*_, **__):
    print("waiting", flush=True)
    sys.stdin.read()

module, _, function = sys.argv[1].rpartition(".")
setattr(import_module(module), function, wait)
main(sys.argv[2:])
"""


@pytest.fixture
def start_waiting() -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Starts a command in a process that waits for ever where it would call a function, given by its full name."""
    started = []

    def start(function: str, *words: object) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", WAITING, function, *map(str, words)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout
        assert any(line == "waiting\n" for line in process.stdout)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
