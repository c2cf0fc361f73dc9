"""Every Python snippet of these pages runs as printed, each page's one after the other."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from polyptrace.encoders import TrackletEncoder, save_encoder

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("page", ["foundation_models.md", "models.md", "scaling.md"])
def test_every_python_snippet_runs(
    page: str, make_dataset: Callable[..., Path], exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snippets = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    assert snippets
    for name in ("train", "test"):
        make_dataset(tmp_path / "data" / name, [[1, 1]])
    save_encoder(TrackletEncoder("test_resnet", width=16, heads=2, layers=1, size=32), tmp_path / "runs/ours/encoder")
    (tmp_path / "exported").symlink_to(exported)
    monkeypatch.chdir(tmp_path)
    for code in snippets:
        exec(compile(code, page, "exec"), {})
