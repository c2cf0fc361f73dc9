"""Every command that writes, as a user types it, on small inputs. A new command is one entry in `COMMANDS`."""

import json
import os
import shlex
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from campaigns.forked import exit_code
from polyptrace.cli import COMMANDS as NAMES
from polyptrace.cli import build, main
from polyptrace.data.crops.videos import write_video

#: Values in JSON files that differ between two equal runs.
VOLATILE = {"made_by", "starts", "seconds", "time", "frames_per_second", "memory_gib"}
#: Files that say what happened on the way, so that their bytes differ.
UNEQUAL = ("log.txt",)
SETTINGS = """
[crops]
size = 32
workers = 1
[encoder]
backbone = "test_resnet"
weights = "none"
width = 8
heads = 2
layers = 1
feed_forward = 8
projection = 4
[supervision]
bags_per_batch = 2
bag_size = 2
[train]
epochs = 1
threads = 1
device = "cpu"
checkpoint_every = 2
loggers = []
[evaluate]
bootstrap = 20
variants = false
"""


DETECTOR = """
import numpy as np

def detect(frames):
    return [np.array([[20.0, 20.0, 16.0, 16.0, 0.9]]) for _ in frames]
"""
#: Commands that write no output of their own; the journal of `explore` is tested with its reader and in its tests.
NOT_TESTED = ("check", "encoders", "settings", "explore")


@dataclass(frozen=True)
class Command:
    """A command line with {inputs} (see `make_inputs`), {case} (a folder with a copy of the vectors) and {out}.

    `other` are options that give another output, which is then overwritten; without them, the command has no
    --overwrite.
    """

    line: str
    other: str = ""

    def words(self, inputs: Path, case: Path, more: str = "") -> list[str]:
        """The arguments, with the output `case/out/it`."""
        line = f"{self.line} {more}".format(inputs=inputs, case=case, out=case / "out/it")
        return shlex.split(line)


DATA, CONFIG = "--data {inputs}/data", "--config {inputs}/small.toml"
VIDEO = "{inputs}/video.mp4 --detector {inputs}/detector.py:detect"
COMPARED = f"{DATA} --eval {{inputs}}/data --seeds 1 --tasks retrieval {CONFIG} --train.frames 64 --out {{out}}"
COMMANDS = {
    "synth": Command("synth {out} --preset tiny --split test --tracklets 1", "--seed 5"),
    "prepare": Command(f"prepare coco {{inputs}}/generated --split test {CONFIG} --out {{out}}"),
    "detect": Command(f"detect {VIDEO} --out {{out}}"),
    "run": Command(f"run {VIDEO} --encoder colour-grid {CONFIG} --out {{out}}"),
    "train": Command(f"train ours {DATA} {CONFIG} --out {{out}}", "--train.seed 5"),
    "embed": Command(f"embed colour-grid {DATA} --out {{out}}", "--embed.enlarge true"),
    "export": Command("export {inputs}/run --to folder --out {out}", "--precision float16"),
    "evaluate": Command(f"evaluate retrieval --embeddings {{case}}/vectors {CONFIG} --out {{out}}", "--name Other"),
    "lesions": Command(f"lesions {{case}}/vectors --refit {DATA} --out {{out}}", "--labels"),
    "find": Command(f"find {{case}}/vectors --video synth-0-003 --track 0 {DATA} --out {{out}}", "--top 1"),
    "figures": Command(f"figures curriculum {DATA} --points 3 --out {{out}}", "--seed 5"),
    "report": Command("report {inputs}/results --out {out}", "--title Other"),
    "compare": Command(f"compare --methods ours,colour-grid {COMPARED}"),
    "ablate": Command(f"ablate --variants nearest {COMPARED}"),
}


def make_inputs(folder: Path) -> None:
    """Generated pictures, a video and its detector, a dataset, vectors, a run and results."""
    folder.mkdir()
    (folder / "small.toml").write_text(SETTINGS, encoding="utf-8")
    (folder / "detector.py").write_text(DETECTOR, encoding="utf-8")
    write_video(folder / "video.mp4", map(_picture, range(120)))
    lines = (
        "synth {0}/generated --preset tiny --tracklets 2",
        "prepare coco {0}/generated --split test --config {0}/small.toml --out {0}/data",
        "embed colour-grid --data {0}/data --out {0}/vectors",
        "evaluate retrieval --embeddings {0}/vectors --config {0}/small.toml --out {0}/results",
        "train ours --data {0}/data --config {0}/small.toml --out {0}/run",
    )
    for line in lines:
        ended = run(shlex.split(line.format(folder)))
        if ended.code:
            raise RuntimeError(f"{line}: {ended.text}")


def _picture(index: int) -> NDArray[np.uint8]:
    """A red, bright frame that moves."""
    line = np.roll(np.linspace(40, 240, 144).astype(np.uint8), 7 * index)
    return np.broadcast_to(line[None, :, None] // np.array([1, 2, 3], np.uint8), (96, 144, 3)).copy()


def load_commands() -> None:
    """Imports everything that commands import, so that a forked process starts at once."""
    import lightning.fabric  # noqa: F401
    import timm  # noqa: F401

    for name in NAMES:
        build(name)


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code (negative: the signal that killed it), its output, and its duration."""

    code: int
    text: str
    seconds: float

    @property
    def clean(self) -> bool:
        """Whether the command succeeded, or said in one line why not."""
        has_message = "error" in self.text or "failed" in self.text
        return self.code == 0 or (self.code in (1, 2) and has_message and "Traceback" not in self.text)


def run(
    words: list[str], prepare: Callable[[], Any] = lambda: None, *, kill_after: float | None = None, limit: float = 120
) -> Ended:
    """Runs a command in a forked process after `prepare`; kills it after `kill_after` seconds."""
    with tempfile.TemporaryFile() as output:
        began = time.monotonic()
        code = exit_code(lambda: _command(words, prepare, output.fileno()), limit if kill_after is None else kill_after)
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
        return Ended(code, text, time.monotonic() - began)


def _command(words: list[str], prepare: Callable[[], Any], output: int) -> None:
    code = 70
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        prepare()
        main(words)
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:  # reported by the parent
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def new_case(folder: Path, inputs: Path, old: Path | None) -> Path:
    """An empty case folder with a copy of the vectors, and of an old output if there is one."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "out").mkdir(parents=True)
    shutil.copytree(inputs / "vectors", folder / "vectors")
    if old is not None:
        shutil.copytree(old, folder / "out/it")
    return folder


def content(folder: Path) -> dict[str, Any]:
    """What equal outputs have in common: each file's bytes, or its JSON without durations and versions."""
    return {
        str(path.relative_to(folder)): _comparable(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(UNEQUAL)
    }


def _comparable(path: Path) -> Any:
    if path.suffix == ".json":
        return _stable(json.loads(path.read_text(encoding="utf-8")))
    if path.suffix == ".jsonl":
        return [_stable(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    return path.read_bytes()


def _stable(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _stable(value) for key, value in tree.items() if key not in VOLATILE}
    return [_stable(value) for value in tree] if isinstance(tree, list) else tree


def different(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Names of files that are not in both, or not equal."""
    return [name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]


def variants(names: list[str]) -> list[tuple[str, bool]]:
    """Each command, or each of these, without and, if it has the option, with --overwrite."""
    return [(name, again) for name in names or COMMANDS for again in (False, True) if COMMANDS[name].other or not again]
