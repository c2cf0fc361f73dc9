"""Kills commands with SIGKILL, before or after a chosen file operation or at a random moment, and runs them again.

Afterwards, the output must be equal to that of an undisturbed run, and nothing else may be left. A killed --overwrite
must leave the old or the new output complete.
"""

import os
import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from campaigns.commands import COMMANDS, new_case, run
from campaigns.findings import Findings
from campaigns.operations import intercept, without_exchange
from campaigns.undisturbed import Undisturbed, disturb
from polyptrace.core.files import recover

#: Operations before and after each of which every command is killed once; the others are drawn at random.
ALWAYS = ("rename", "exchange")


@dataclass(frozen=True)
class How:
    """How a command is killed: at an operation or, without one, after a share of its duration."""

    number: int = 0
    after: bool = False
    exchange: bool = True
    share: float = 0.0


def campaign(folder: Path, inputs: Path, seconds: float, cases: int, rng: random.Random, names: list[str]) -> Findings:
    """Kills until the time is over or each command was killed `cases` times; returns counts and failures."""
    return disturb(folder, inputs, seconds, cases, names, lambda each: _plan(each, rng), _attempt)


def _plan(each: Undisturbed, rng: random.Random) -> Iterator[How]:
    """All renames in random order, then operations and moments at random."""
    renames = [number for number, kind in enumerate(each.operations, 1) if kind in ALWAYS]
    aimed = [How(number, after) for number in renames for after in (False, True)]
    rng.shuffle(aimed)
    while True:
        if aimed:
            yield aimed.pop()
        else:
            yield How(rng.randint(1, len(each.operations)), rng.random() < 0.5, rng.random() < 0.7)
        yield How(share=rng.random())


def _attempt(each: Undisturbed, case: Path, inputs: Path, how: How) -> tuple[str, str]:
    """Kills a command once and runs it to its end; returns the kind of kill and what is wrong, or ""."""
    words = COMMANDS[each.name].words(inputs, new_case(case, inputs, each.old), each.more)

    def kill(number: int, _kind: str, _path: str, over: bool) -> None:
        if number == how.number and over == how.after:
            os.kill(os.getpid(), signal.SIGKILL)

    def prepare() -> None:
        if not how.exchange:
            without_exchange()
        if how.number:
            intercept(case, kill)

    outcome = "aimed" if how.number else "random"
    killed = run(words, prepare, kill_after=None if how.number else how.share * each.seconds)
    if killed.code not in (0, -signal.SIGKILL):
        return outcome, f"ended with {killed.code} before the kill: {killed.text[-300:]}"
    if not killed.code:
        outcome = "ended before the kill"
    elif each.overwrite:
        recover(case / "out/it")
        if problem := each.incomplete(case / "out/it"):
            return outcome, problem
    again, unequal = run(words), each.unequal(case)
    if not again.clean or (again.code and unequal):
        return outcome, f"the restart ended with {again.code}: {again.text[-300:]}"
    return outcome, unequal
