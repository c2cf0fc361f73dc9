"""Kills commands with SIGKILL, before or after a chosen file operation or at a random moment, and runs them again.

Afterwards, the output must be equal to that of an undisturbed run, and nothing else may be left. A killed --overwrite
must leave the old or the new output complete.
"""

import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from campaigns.commands import COMMANDS, content, different, new_case, run, variants
from campaigns.findings import Findings
from campaigns.operations import intercept, without_exchange
from polyptrace.core.files import recover

#: Operations before and after each of which every command is killed once; the others are drawn at random.
ALWAYS = ("rename", "exchange")


@dataclass
class Undisturbed:
    """A command, its output, an older output if it is overwritten, and its file operations in order."""

    name: str
    overwrite: bool
    more: str
    old: Path | None
    expected: dict[str, Any]
    before: dict[str, Any] = field(default_factory=dict)
    operations: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def title(self) -> str:
        return f"{self.name} --overwrite" if self.overwrite else self.name

    def incomplete(self, out: Path) -> str:
        """What is wrong if an output that is overwritten is neither the old nor the new one; or ""."""
        left = {name: value for name, value in content(out).items() if not name.startswith(".")}  # without marks
        after = {name[7:]: value for name, value in self.expected.items() if name.startswith("out/it/")}
        wrong = different(left, self.before) and different(left, after)
        return f"neither the old nor the new output is complete: {wrong[:3]}" if wrong else ""


def undisturbed(folder: Path, inputs: Path, name: str, overwrite: bool) -> Undisturbed:
    """Runs a command twice to know its output and its operations; an error if the two outputs differ."""
    command, case, old, before = COMMANDS[name], folder / "case", None, {}
    more = "--overwrite" if overwrite else ""
    if overwrite:
        ended = run(command.words(inputs, new_case(case, inputs, None), command.other))
        assert ended.code == 0, (name, ended.text)
        old = folder / f"old-{name}"
        (case / "out/it").rename(old)
        before = content(old)
    outputs = []
    for _ in range(2):
        words = command.words(inputs, new_case(case, inputs, old), more)
        ended = run(words, lambda: intercept(case, _logged(case.with_name("operations"))))
        assert ended.code == 0, (name, ended.text)
        outputs.append(content(case))
        operations = case.with_name("operations").read_text(encoding="utf-8").split()
        case.with_name("operations").unlink()
    assert not different(*outputs), (name, different(*outputs))
    return Undisturbed(name, overwrite, more, old, outputs[0], before, operations, ended.seconds)


def _logged(file: Path) -> Any:
    def action(_number: int, kind: str, _path: str, over: bool) -> None:
        if not over:
            descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(descriptor, f"{kind}\n".encode())
            os.close(descriptor)

    return action


def taking_turns(known: list[Undisturbed], cases: int, seconds: float) -> Iterator[Undisturbed]:
    """Each command `cases` times in turn, until the time is over."""
    until = time.monotonic() + seconds
    for _ in range(cases):
        for each in known:
            if time.monotonic() > until:
                return
            yield each


def campaign(folder: Path, inputs: Path, seconds: float, cases: int, rng: random.Random, names: list[str]) -> Findings:
    """Kills until the time is over or each command was killed `cases` times; returns counts and failures."""
    known = [undisturbed(folder, inputs, name, again) for name, again in variants(names)]
    plans = {each.title: _plan(each, rng) for each in known}
    findings = Findings()
    for each in taking_turns(known, cases, seconds):
        findings.counts[each.title]["operations"] = len(each.operations)
        how = next(plans[each.title])
        problem = _attempt(each, folder / "case", inputs, how, findings.counts[each.title])
        if problem:
            findings.fail(each.title, f"{how}: {problem}")
    return findings


@dataclass(frozen=True)
class How:
    """How a command is killed: at an operation or, without one, after a share of its duration."""

    number: int = 0
    after: bool = False
    exchange: bool = True
    share: float = 0.0


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


def _attempt(each: Undisturbed, case: Path, inputs: Path, how: How, count: Counter[str]) -> str:
    """Kills a command once and runs it to its end; returns what is wrong, or ""."""
    command = COMMANDS[each.name]
    words = command.words(inputs, new_case(case, inputs, each.old), each.more)

    def kill(number: int, _kind: str, _path: str, over: bool) -> None:
        if number == how.number and over == how.after:
            os.kill(os.getpid(), signal.SIGKILL)

    def prepare() -> None:
        if not how.exchange:
            without_exchange()
        if how.number:
            intercept(case, kill)

    killed = run(words, prepare, kill_after=None if how.number else how.share * each.seconds)
    if killed.code != -signal.SIGKILL:
        count["ended before the kill"] += 1
    else:
        count["aimed" if how.number else "random"] += 1
        if each.overwrite:
            recover(case / "out/it")
            if problem := each.incomplete(case / "out/it"):
                return problem
    again = run(words)
    if not again.clean or (again.code and different(content(case), each.expected)):
        return f"the restart ended with {again.code}: {again.text[-300:]}"
    wrong = different(content(case), each.expected)
    return f"different after the restart, or left behind: {wrong[:5]}" if wrong else _left(case)


def _left(case: Path) -> str:
    names = {path.name for path in (case / "out").iterdir()} - {"it"}
    shutil.rmtree(case)
    return f"left behind: {sorted(names)}" if names else ""
