"""What a folder contains, by the file that marks it, so that an error can say what was given instead."""

from pathlib import Path

from polyptrace.core.errors import UserError

#: The file that marks the folder of a command, and what the folder contains.
CONTENTS = {
    "synth": ("synthetic.json", "generated procedures"),
    "prepare": ("dataset.json", "a dataset"),
    "train": ("metrics.jsonl", "a training run"),
    "embed": ("embeddings.json", "vectors"),
    "export": ("export.json", "an exported encoder"),
    "lesions": ("lesions.csv", "lesions"),
    "report": ("report.html", "a report"),  # before results, because a report has a results.json too
    "evaluate": ("results.json", "results"),
}


def described(path: Path) -> str | None:
    """What a folder contains and which command wrote it; None if no command wrote it."""
    for command, (mark, content) in CONTENTS.items():
        if (path / mark).is_file():
            return f"{content}, written by 'polyptrace {command}'"
    return None


def wrong_folder(path: Path, command: str, alternative: str = "") -> UserError:
    """The error for a path that is not a folder of `command`; `alternative` says what else may be given."""
    wanted = CONTENTS[command][1]
    problem = f"contains no {wanted.removeprefix('a ')}" if path.exists() else "no such folder"
    content = described(path)
    if content is not None and not (path / CONTENTS[command][0]).is_file():
        problem = f"contains {content}, not {wanted}"
    return UserError(f"{path}: {problem} -> give a folder that 'polyptrace {command}' wrote{alternative}")
