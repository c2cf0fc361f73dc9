"""Whether an existing output may be reused or resumed: it must have been made with the same settings."""

from collections.abc import Mapping, Sequence
from typing import Any

from polyptrace.core.errors import UserError

#: Settings that affect where and how fast something is computed, but not what is computed. An output that was made
#: with other values of these is still valid, and a run may be resumed with other values.
HARMLESS = frozenset(
    {
        "crops.workers",
        "train.device",
        "train.devices",
        "train.threads",
        "train.compile",
        "train.crops",
        "train.checkpoint_every",
        "train.checkpoint_minutes",
        "train.log_every",
        "train.loggers",
        "embed.device",
        "embed.compile",
        "embed.batch_frames",
        "evaluate.device",
    }
)


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """One line `key: old -> new` for each setting that differs, except for harmless ones; None where one is missing.

    >>> differences({"seed": 0, "crops": {"size": 232, "scale": 5}}, {"seed": 1, "crops": {"size": 64, "scale": 5}})
    ['seed: 0 -> 1', 'crops.size: 232 -> 64']
    """
    return [line for line in _lines(old, new) if line.partition(":")[0] not in HARMLESS]


def refuse_changes(made: str, changed: Sequence[str], advice: str) -> None:
    """Raises an error that lists the changed settings, if there are any."""
    if changed:
        listed = "\n  ".join(changed)
        raise UserError(f"{made} with other settings\n  {listed}\n-> {advice}")


def _lines(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    lines = []
    for key in dict.fromkeys((*old, *new)):
        before, after = old.get(key), new.get(key)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            lines += [f"{key}.{line}" for line in _lines(before, after)]
        elif before != after:
            lines.append(f"{key}: {before!r} -> {after!r}")
    return lines
