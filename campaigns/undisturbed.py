"""A command without a disturbance, to compare with, and the loop that disturbs every command in turn."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from campaigns.commands import COMMANDS, content, different, new_case, run, variants
from campaigns.findings import Findings
from campaigns.operations import intercept

How = TypeVar("How")


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

    def unequal(self, case: Path) -> str:
        """What differs from the undisturbed run or is left behind in the folder of a case; or ""."""
        wrong = different(content(case), self.expected)
        wrong += sorted({path.name for path in (case / "out").iterdir()} - {"it"})
        return f"different or left behind: {wrong[:5]}" if wrong else ""


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


def disturb(
    folder: Path,
    inputs: Path,
    seconds: float,
    cases: int,
    names: list[str],
    plan: Callable[[Undisturbed], Iterator[How]],
    attempt: Callable[[Undisturbed, Path, Path, How], tuple[str, str]],
) -> Findings:
    """Disturbs each command in turn as planned, until the time is over or each had `cases`.

    `attempt` gets a command, the folder of the case, the inputs and the disturbance; it returns the outcome, which is
    counted, and what is wrong, or "".
    """
    plans = [(each, plan(each)) for each in (undisturbed(folder, inputs, *variant) for variant in variants(names))]
    findings, until = Findings(), time.monotonic() + seconds
    for _ in range(cases):
        for each, planned in plans:
            if time.monotonic() > until:
                return findings
            how = next(planned)
            outcome, problem = attempt(each, folder / "case", inputs, how)
            findings.counts[each.title]["operations"] = len(each.operations)
            findings.counts[each.title][outcome] += 1
            if problem:
                findings.fail(each.title, f"{how}: {problem}")
    return findings
