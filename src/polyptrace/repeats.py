"""A command that is started again: its output is there already, and was made with the same settings or with others."""

from collections.abc import Mapping, Sequence
from typing import Any

from polyptrace.errors import UserError


def differences(held: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """One line `key: old -> new` for each value in which two trees of settings differ; None where there is none.

    >>> differences({"seed": 0, "crops": {"size": 232, "scale": 5}}, {"seed": 1, "crops": {"size": 64, "scale": 5}})
    ['seed: 0 -> 1', 'crops.size: 232 -> 64']
    """
    lines = []
    for key in dict.fromkeys((*held, *wanted)):
        old, new = held.get(key), wanted.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            lines += [f"{key}.{line}" for line in differences(old, new)]
        elif old != new:
            lines.append(f"{key}: {old!r} -> {new!r}")
    return lines


def refuse_changes(made: str, changed: Sequence[str], instead: str) -> None:
    """An error that lists what has changed since something was `made`, if anything has, and what to do `instead`."""
    if changed:
        listed = "\n  ".join(changed)
        raise UserError(f"{made} with other settings\n  {listed}\n-> {instead}")
