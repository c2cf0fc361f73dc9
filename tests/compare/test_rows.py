"""The rows of comparisons, and the variants that ablations compare."""

from collections.abc import Callable
from pathlib import Path

import pytest

from polyptrace.compare.rows import ALL, BLOCKS, ROWS, frozen_row, row_config, select_blocks, select_rows
from polyptrace.config import Config, Encoder, Supervision, Train, Views, difference
from polyptrace.core.errors import UserError
from polyptrace.core.files import read_json, write_json
from polyptrace.data import Dataset
from polyptrace.methods import METHODS
from polyptrace.train import train


def test_every_method_is_a_row_and_all_settings_of_rows_exist() -> None:
    assert {row.method for row in ROWS.values() if row.method} == set(METHODS)
    assert set(METHODS) <= set(ALL)
    for row in ROWS.values():
        if row.method:
            assert row_config(row).train.method == row.method


def test_rows_come_in_the_order_of_the_table_whatever_the_order_they_are_named_in() -> None:
    assert [row.name for row in select_rows("ours,sup,mve", ROWS, ALL)] == ["sup", "mve", "ours"]
    assert [row.name for row in select_rows("all,tpc-polyp", ROWS, ALL)][-5:] == [
        "tpc-polyp",
        "tpc",
        "mve",
        "sfe",
        "ours",
    ]
    with pytest.raises(UserError, match="no such row"):
        select_rows("ours,simclr", ROWS, ALL)


def test_only_views_by_polyp_and_the_supervised_methods_see_labels() -> None:
    sees = {name for name, row in ROWS.items() if row.method and METHODS[row.method].sees_labels(row_config(row))}
    assert sees == {"sup", "ta", "sfe-polyp", "tpc-polyp"}


def test_a_foundation_model_is_named_and_grouped_as_in_the_paper() -> None:
    row = frozen_row("endofm:weights/endo_fm.pth")
    assert (row.title, row.group, row.weights) == ("EndoFM", "Endoscopy FM", "weights/endo_fm.pth")
    assert row.seen == ("SUN",)
    row = frozen_row("dinov2-small")
    assert (row.title, row.group, row.weights) == ("DinoV2-S/14", "General Purpose FM", "")
    assert frozen_row("Small one=dinov2-small").name == "small-one"
    with pytest.raises(UserError, match="neither a known encoder nor a folder"):
        frozen_row("dinov9")


def test_a_frozen_backbone_is_a_baseline_with_its_weights() -> None:
    row = frozen_row("frozen:resnet50:weights/resnet50.pth")
    assert (row.encoder, row.weights) == ("frozen:resnet50", "weights/resnet50.pth")
    assert (row.name, row.title, row.group) == ("frozen-resnet50", "Frozen resnet50", "Baseline")
    row = frozen_row("ImageNet=frozen:resnet18")
    assert (row.name, row.encoder, row.weights) == ("imagenet", "frozen:resnet18", "")


def test_a_trained_run_that_is_reused_reports_what_it_saw(make_dataset: Callable[..., Path], tmp_path: Path) -> None:
    folder = make_dataset(tmp_path / "data", [[2, 2], [2, 2]])
    info = read_json(folder / "dataset.json")
    write_json(folder / "dataset.json", {**info, "settings": {"tracks": {"link": "polyp"}}})
    data = Dataset.open(folder)
    # method, epochs and initial weights of each run, and what its row says
    runs = {
        "sup": ("sup", 1, None, "labels", "Fully supervised"),
        "ours": ("ours", 1, None, "label-free given tracks", "Self-supervised"),
        "untrained": ("ours", 0, None, "label-free", "Baseline"),
        "ours-from-sup": ("ours", 1, "sup", "labels", "Self-supervised"),
        "ours-again": ("ours", 0, "ours", "label-free given tracks", "Self-supervised"),
    }
    for name, (method, epochs, start, labels, group) in runs.items():
        config = Config(
            supervision=Supervision(bags_per_batch=2, bag_size=1),
            views=Views(batch=4, polyps_per_batch=2, tracklets_per_polyp=2),
            encoder=Encoder("test_resnet", "none", width=16, layers=1, heads=2, feed_forward=16, projection=8),
            train=Train(method=method, epochs=epochs, threads=1, loggers=()),
        )
        train(config, data, tmp_path / name, init_from=str(tmp_path / start) if start else None)
        row = frozen_row(f"From elsewhere={tmp_path / name}")
        assert (name, row.name, row.labels, row.group) == (name, "from-elsewhere", labels, group)


def test_a_title_ends_where_an_encoder_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/lr=0.1").touch()  # the authors' checkpoint
    monkeypatch.chdir(tmp_path)
    actual = {
        text: (frozen_row(text).title, frozen_row(text).encoder)
        for text in ("runs/lr=0.1", "Mine=runs/lr=0.1", "K = 2=colour-grid", "colour-grid", "lr=1=frozen:resnet18")
    }
    assert list(actual.values()) == [
        ("lr=0.1", "runs/lr=0.1"),
        ("Mine", "runs/lr=0.1"),
        ("K = 2", "colour-grid"),
        ("Colour grid", "colour-grid"),
        ("lr=1", "frozen:resnet18"),
    ]
    assert frozen_row("My grid=colour-grid").name == "my-grid"
    row = frozen_row("dinov2-small: mine=dinov2-small:w=1.pth")
    assert (row.title, row.weights) == ("dinov2-small: mine", "w=1.pth")
    with pytest.raises(UserError, match="neither a known encoder nor a folder"):
        frozen_row("x" * 1000)
    with pytest.raises(UserError, match="neither a known encoder nor a folder"):
        frozen_row("Mine=")


def test_encoders_known_by_name_use_no_polyp_labels() -> None:
    for name in ("colour-grid", "frozen:resnet18", "dinov2-small", "default"):
        assert frozen_row(name).labels == "label-free"


def test_every_variant_differs_from_ours_in_what_it_says_and_no_two_are_alike() -> None:
    rows = {row.name: row for block in BLOCKS.values() for row in block.rows}
    ours = row_config(ROWS["ours"])
    configs = {name: row_config(row) for name, row in rows.items()}
    for name, config in configs.items():
        changed = {line.partition(":")[0] for line in difference(ours, config)}
        assert changed <= {f"{s}.{k}" for s, keys in rows[name].settings.items() for k in keys}
        assert changed or name == "ours"
    assert len({str(config) for config in configs.values()}) == len(rows)


@pytest.mark.parametrize(("name", "tau"), [("fixed-4", 4.0), ("fixed-12", 12.0), ("tau-2", 2.0), ("tau-24", 24.0)])
def test_a_variant_that_names_its_temperature_has_it_even_where_ours_is_fitted(name: str, tau: float) -> None:
    rows = {row.name: row for block in BLOCKS.values() for row in block.rows}
    settings = row_config(rows[name], {"supervision": {"tau_fit": "share"}}).supervision
    assert (settings.tau_max, settings.tau_fit) == (tau, "none")


def test_every_variant_has_the_papers_sixty_tracklets_in_a_batch() -> None:
    for block in BLOCKS.values():
        for row in block.rows:
            settings = row_config(row).supervision
            assert settings.bags_per_batch * (1 + settings.bag_size) == 60


def test_every_block_compares_with_ours() -> None:
    assert all(ROWS["ours"] in block.rows and len(block.rows) > 2 for block in BLOCKS.values())


def test_variants_are_chosen_by_block_by_name_or_as_table_2() -> None:
    assert select_blocks("table2") == [BLOCKS["sampling"], BLOCKS["level"]]
    assert len(select_blocks("all")) == len(BLOCKS)
    (block,) = select_blocks("tau-gaps")
    assert [row.name for row in block.rows] == ["tau-gaps", "ours"]
    assert [block.title for block in select_blocks("loss,bag-1")] == [BLOCKS["loss"].title, BLOCKS["bag-size"].title]
    with pytest.raises(UserError, match="no such variant"):
        select_blocks("table3")
    for nothing in ("ours", ","):
        with pytest.raises(UserError, match="nothing to compare ours with"):
            select_blocks(nothing)
