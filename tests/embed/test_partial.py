"""An `embed` that is killed resumes: it repeats little, and its vectors are those of an uninterrupted one."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from polyptrace.config import Embed
from polyptrace.core.errors import PolyptraceWarning, UserError
from polyptrace.data import Dataset
from polyptrace.embed import Embedder, Embeddings, embed_files, partial
from polyptrace.embed.embedding import UNITS
from polyptrace.embed.partial import PartialVectors, partial_file, remove_leftovers
from polyptrace.encoders import ColourGrid
from tests.killing import run_script


@pytest.mark.parametrize("kind", ["torch", "onnx"])
def test_a_killed_embedding_repeats_little_and_gives_the_same_bytes(
    kind: str, exported: Path, make_dataset: Callable[..., Path], tmp_path: Path
) -> None:
    data = make_dataset(tmp_path / "data", [[3, 2], [2, 3]], frames=16)
    encoder = "torch" if kind == "torch" else exported
    kills, whole, killed, most = run_script("tests.embed.killed", encoder, data, tmp_path, 4)
    assert kills == 4
    assert whole == 80  # 160 frames
    assert killed - whole <= kills * most
    assert not partial_file(tmp_path / "killed").exists()
    vectors = [(tmp_path / name / "embeddings.parquet").read_bytes() for name in ("whole", "killed")]
    assert vectors[0] == vectors[1]


@pytest.fixture
def interrupted(coloured: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The output folder of an embedding that was interrupted after some blocks."""
    monkeypatch.setattr(partial, "EVERY", 0.0)
    monkeypatch.setattr(partial, "LEAST_RATIO", 0.0)
    out, settings = tmp_path / "vectors", Embed(device="cpu", batch_frames=8, block_frames=40)
    embedder, steps = Embedder(ColourGrid(), settings), 0

    def stop(count: int) -> None:
        nonlocal steps
        steps += count
        if steps > 200:
            raise KeyboardInterrupt

    plan = embedder.plan(coloured, np.arange(len(coloured.tracklets)))
    with pytest.raises(KeyboardInterrupt):
        embedder.vectors(coloured, plan, advance=stop, partial=embedder.partial(out, coloured, UNITS))
    return out


def computed(out: Path, data: Dataset, settings: Embed, monkeypatch: pytest.MonkeyPatch) -> int:
    """The frames that `embed_files` computes."""
    frames = 0
    original = ColourGrid.frame_features

    def counting(self: ColourGrid, crops):  # type: ignore[no-untyped-def]
        nonlocal frames
        frames += len(crops)
        return original(self, crops)

    monkeypatch.setattr(ColourGrid, "frame_features", counting)
    embed_files("colour-grid", data.path, out, settings=settings)
    return frames


def test_the_same_command_computes_the_rest(
    interrupted: Path, coloured: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Embed(device="cpu", batch_frames=8, block_frames=40)
    assert computed(interrupted, coloured, settings, monkeypatch) == len(coloured.crops) - 200
    embed_files("colour-grid", coloured.path, tmp_path / "whole", settings=settings)
    given, wanted = Embeddings.load(interrupted), Embeddings.load(tmp_path / "whole")
    assert given.vectors.tobytes() == wanted.vectors.tobytes()


def test_other_settings_start_anew(interrupted: Path, coloured: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Embed(device="cpu", block_frames=80)
    with pytest.warns(PolyptraceWarning, match="starts anew"):
        assert computed(interrupted, coloured, settings, monkeypatch) == len(coloured.crops)


def test_another_dataset_starts_anew(interrupted: Path, coloured: Dataset, make_dataset: Callable[..., Path]) -> None:
    embedder = Embedder(ColourGrid(), Embed(device="cpu", batch_frames=8, block_frames=40))
    assert embedder.partial(interrupted, coloured, UNITS).frames == 200
    other = Dataset.open(make_dataset(interrupted.parent / "other", [[4, 3], [5, 4], [4, 5]]))
    with pytest.warns(PolyptraceWarning, match="made with another encoder, dataset"):
        assert embedder.partial(interrupted, other, UNITS).frames == 0
    info = json.loads((coloured.path / "dataset.json").read_text()) | {"settings": {"crops": {"size": 64}}}
    resized = Dataset(coloured.path, info, coloured.tracklets, coloured.crops)
    with pytest.warns(PolyptraceWarning, match="starts anew"):
        assert embedder.partial(interrupted, resized, UNITS).frames == 0


def test_another_version_of_polyptrace_starts_anew(
    interrupted: Path, coloured: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polyptrace.__version__", "0.0.1")
    embedder = Embedder(ColourGrid(), Embed(device="cpu", batch_frames=8, block_frames=40))
    with pytest.warns(PolyptraceWarning, match="version of polyptrace"):
        assert embedder.partial(interrupted, coloured, UNITS).frames == 0


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    partial_file(tmp_path / "vectors").write_bytes(b"PK not an archive")
    with pytest.raises(UserError, match=r"vectors\.partial\.npz: cannot be read .* -> remove it"):
        PartialVectors(tmp_path / "vectors")


def test_what_a_process_left_that_was_killed_after_saving_is_removed(coloured: Dataset, tmp_path: Path) -> None:
    out = tmp_path / "vectors"
    embed_files("colour-grid", coloured.path, out)
    left = [partial_file(out), tmp_path / ".vectors.lock"]

    def repeat() -> None:
        with pytest.raises(UserError, match="already exists"):
            embed_files("colour-grid", coloured.path, out)

    for again in (repeat, lambda: remove_leftovers(out)):
        for path in left:
            path.write_bytes(b"")
        again()
        assert not any(path.exists() for path in left)
