"""The variants that ablations compare."""

import pytest

from polyptrace.compare.rows import BLOCKS, ROWS, resolve, select_blocks
from polyptrace.config import difference
from polyptrace.core.errors import UserError


def test_every_variant_differs_from_ours_in_what_it_says_and_no_two_are_alike() -> None:
    rows = {row.name: row for block in BLOCKS.values() for row in block.rows}
    ours = resolve(ROWS["ours"])
    configs = {name: resolve(row) for name, row in rows.items()}
    for name, config in configs.items():
        changed = {line.partition(":")[0] for line in difference(ours, config)}
        assert changed <= {f"{s}.{k}" for s, keys in rows[name].settings.items() for k in keys}
        assert changed or name == "ours"
    assert len({str(config) for config in configs.values()}) == len(rows)


@pytest.mark.parametrize(("name", "tau"), [("fixed-4", 4.0), ("fixed-12", 12.0), ("tau-2", 2.0), ("tau-24", 24.0)])
def test_a_variant_that_names_its_temperature_has_it_even_where_ours_is_fitted(name: str, tau: float) -> None:
    rows = {row.name: row for block in BLOCKS.values() for row in block.rows}
    settings = resolve(rows[name], {"supervision": {"tau_fit": "share"}}).supervision
    assert (settings.tau_max, settings.tau_fit) == (tau, "none")


def test_every_variant_has_the_papers_sixty_tracklets_in_a_batch() -> None:
    for block in BLOCKS.values():
        for row in block.rows:
            settings = resolve(row).supervision
            assert settings.bags_per_batch * (1 + settings.bag_size) == 60


def test_every_block_compares_with_ours() -> None:
    assert all(ROWS["ours"] in block.rows and len(block.rows) > 2 for block in BLOCKS.values())


def test_variants_are_chosen_by_block_by_name_or_as_table_2() -> None:
    assert [block.name for block in select_blocks("table2")] == ["sampling", "level"]
    assert len(select_blocks("all")) == len(BLOCKS)
    (block,) = select_blocks("tau-gaps")
    assert [row.name for row in block.rows] == ["tau-gaps", "ours"]
    assert [block.name for block in select_blocks("loss,bag-1")] == ["loss", "bag-size"]
    with pytest.raises(UserError, match="no such variant"):
        select_blocks("table3")
