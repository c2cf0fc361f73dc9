"""Every Python snippet of every page runs as printed, and every command line has options that exist."""

import importlib
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image

from polyptrace.cli import COMMANDS, build
from polyptrace.cli.options import read_settings
from polyptrace.embed import Embeddings
from polyptrace.encoders import TrackletEncoder, save_encoder

ROOT = Path(__file__).parents[1]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text("utf-8") for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
}
SNIPPETS = {page: re.findall(r"```python\n(.*?)```", text, re.DOTALL) for page, text in PAGES.items()}
BLOCKS = {page: "".join(re.findall(r"```(?:sh|bash)\n(.*?)```", text, re.DOTALL)) for page, text in PAGES.items()}


@pytest.fixture(scope="module")
def world(make_dataset: Callable[..., Path], exported: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders that the pages name."""
    folder = tmp_path_factory.mktemp("pages")
    for name in ("train", "test"):
        make_dataset(folder / "data" / name, [[1, 1]])
    save_encoder(TrackletEncoder("test_resnet", width=16, heads=2, layers=1, size=32), folder / "runs/ours/encoder")
    polyp, random = np.repeat(np.arange(12), 4), np.random.default_rng(0)
    columns = {
        "vectors": random.normal(size=(12, 8))[polyp] + 0.5 * random.normal(size=(48, 8)),
        "polyp": np.array([f"p{number}" for number in polyp], object),
        "video": np.array([f"v{number // 3}" for number in polyp], object),
        "size_mm": np.where(polyp % 2, 3.0, 8.0),
        "track": np.arange(48),
        "position": np.arange(48) * 100,
        "last": np.arange(48) * 100 + 50,
        "unit": np.full(48, "any", object),
    }
    for name in ("ours", "mine"):
        Embeddings.from_columns(columns).save(folder / "vectors" / name)
    (folder / "exported").symlink_to(exported)
    picture = Image.linear_gradient("L").resize((64, 48)).convert("RGB")
    for clip in range(4):
        (folder / f"clips/c{clip}/img1").mkdir(parents=True)
        (folder / f"clips/c{clip}/gt").mkdir()
        for frame in range(1, 41):
            picture.save(folder / f"clips/c{clip}/img1/{frame:06d}.jpg")
        rows = "".join(f"{frame},1,20,20,10,10,1\n" for frame in range(1, 41))
        (folder / f"clips/c{clip}/gt/gt.txt").write_text(rows)
    (folder / "boxes.csv").write_text("video;frame;x1;y1;x2;y2;score\n2024-03-11.mp4;7;9,5;43,0;32,5;63,0;0,50\n")
    return folder


def test_the_boxes_of_another_table_become_a_mot_file(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world)
    (code,) = [code for code in SNIPPETS["docs/formats.md"] if "boxes.csv" in code]
    exec(compile(code, "docs/formats.md", "exec"), {})
    assert (world / "procedures/2024-03-11.txt").read_text() == "8,-1,10.5,44.0,23.0,20.0,0.5\n"


@pytest.mark.parametrize("page", [page for page, snippets in SNIPPETS.items() if snippets])
def test_every_python_snippet_runs(page: str, world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world)
    for code in SNIPPETS[page]:
        exec(compile(code, page, "exec"), {})


@pytest.mark.parametrize("page", [page for page, block in BLOCKS.items() if "polyptrace " in block])
def test_every_command_line_has_options_that_exist(page: str) -> None:
    lines = re.findall(r"^(?:\w.* -m )?polyptrace (.*)", BLOCKS[page].replace("\\\n", " "), re.MULTILINE)
    assert lines
    for words in (shlex.split(line, comments=True) for line in lines):
        name = words[0]
        assert name in COMMANDS, words
        command = typer.main.get_command(build(name)).commands[name]  # type: ignore[attr-defined]
        module = importlib.import_module(f"polyptrace.cli.{name}")
        context = command.make_context(name, words[1:])
        if getattr(module, "SECTIONS", ()):
            read_settings(context, None, module.SECTIONS)
