"""Where weights are found: paths first, the hub only on request, and the errors of the hub.

The hub is a small server on this machine that answers as the real one does.
"""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import huggingface_hub.constants
import pytest

from polyptrace.core.errors import UserError
from polyptrace.encoders.foundation import FOUNDATION_MODELS
from polyptrace.encoders.foundation.loading import cached_weights, find_weights

CONTENT = b"the weights"
GATED = "facebook/dinov3-vits16-pretrain-lvd1689m"


class Hub(BaseHTTPRequestHandler):
    """One open repository with a .bin, one that is gated, and nothing else."""

    requested: list[str]

    def answer(self) -> None:
        Hub.requested.append(self.path)
        if self.path.startswith(f"/{GATED}/"):
            self._refuse(401, "GatedRepo")
        elif not self.path.startswith("/someone/open/"):
            self._refuse(404, "RepoNotFound")
        elif not self.path.endswith("pytorch_model.bin"):
            self._refuse(404, "EntryNotFound")
        else:
            self.send_response(200)
            for name, value in (("ETag", '"1"'), ("X-Repo-Commit", "0" * 40), ("Content-Length", str(len(CONTENT)))):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(CONTENT if self.command == "GET" else b"")

    def _refuse(self, status: int, reason: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", reason)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """The paths requested from the server."""
    Hub.requested = []
    answering = type("Answering", (Hub,), {"do_HEAD": Hub.answer, "do_GET": Hub.answer})
    server = ThreadingHTTPServer(("127.0.0.1", 0), answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)
    monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    yield Hub.requested
    server.shutdown()
    server.server_close()


def find(name: str, weights: str | Path) -> Path:
    return find_weights(name, FOUNDATION_MODELS[name], weights)


def test_a_path_that_exists_never_asks_the_hub(hub: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "someone/open").mkdir(parents=True)
    assert find("dinov2-small", "someone/open") == Path("someone/open")
    assert find("dinov2-small", tmp_path) == tmp_path
    assert hub == []


@pytest.mark.parametrize("weights", ["weights/dinov2.pth", "dinov2.safetensors", "/no/such/folder", "here/file"])
def test_a_path_that_does_not_exist_is_an_error_and_never_asks_the_hub(
    weights: str, hub: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    with pytest.raises(UserError, match=r"no file, folder or hub id.*dinov2-small"):
        find("dinov2-small", weights)
    assert hub == []


@pytest.mark.parametrize("weights", ["someone/open", "hub:someone/open", "hub:someone/open/pytorch_model.bin"])
def test_a_hub_id_is_fetched_once_and_then_taken_from_the_cache(
    weights: str, hub: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = find("dinov2-small", weights)
    assert path.read_bytes() == CONTENT
    requests = len(hub)
    assert requests > 0
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert find("dinov2-small", weights) == path
    assert len(hub) == requests


def test_the_error_for_a_gated_repository_explains_access_and_names_the_mirror(hub: list[str]) -> None:
    with pytest.raises(
        UserError, match=rf"{GATED}.*hf auth login.*hub:timm/vit_small_patch16_dinov3.lvd1689m.*--weights"
    ):
        find("dinov3-small", "hub")
    assert hub


def test_a_missing_repository_or_file_is_named(hub: list[str]) -> None:
    with pytest.raises(UserError, match=r"someone/else: .*404.*check the name"):
        find("dinov2-small", "hub:someone/else")
    with pytest.raises(UserError, match=r"someone/open: has none of x.bin.*hub:someone/open/FILE"):
        find("dinov2-small", "hub:someone/open/x.bin")
    assert hub


def test_offline_the_error_says_what_to_do(hub: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=r"cannot be reached.*another computer.*--weights"):
        find("vjepa2", "hub")
    assert hub == []


def test_a_model_that_is_not_on_the_hub_says_where_its_file_is() -> None:
    for weights in ("hub", "cached"):
        with pytest.raises(
            UserError,
            match=r"endofm: its weights are not on the hub -> get endo_fm.pth from https://github.com/med-air/Endo-FM",
        ):
            find("endofm", weights)


def test_without_cached_weights_the_error_suggests_the_hub(hub: list[str]) -> None:
    with pytest.raises(UserError, match=r"not in the local cache -> download them with --weights hub"):
        find("vjepa2", "cached")
    assert hub == []


def test_weights_in_the_cache_are_seen_without_asking(hub: list[str], tmp_path: Path) -> None:
    assert cached_weights(FOUNDATION_MODELS["endovit"]) is None
    snapshot = tmp_path / "cache/models--egeozsoy--EndoViT/snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "pytorch_model.bin").write_bytes(CONTENT)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs/main").write_text("0" * 40)
    assert cached_weights(FOUNDATION_MODELS["endovit"]) == snapshot / "pytorch_model.bin"
    assert find("endovit", "hub") == find("endovit", "cached") == snapshot / "pytorch_model.bin"
    assert hub == []
