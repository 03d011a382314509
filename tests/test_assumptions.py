"""Figures that no datasheet states: each has a unit, a basis and a source, and a default serves unknown GPUs."""

import pytest

from kvmodel import assumptions, catalog
from kvmodel.catalog import CatalogError


def _figures(table, path=()):
    for key, row in table.items():
        if isinstance(row, dict) and "value" in row:
            yield ".".join(path), key
        elif isinstance(row, dict):
            yield from _figures(row, (*path, key))


FIGURES = sorted(_figures(catalog.table("assumptions")))


@pytest.mark.parametrize(("section", "key"), FIGURES, ids=lambda part: part)
def test_every_figure_has_a_unit_and_a_known_source(section, key):
    row = assumptions.assumption(section, key)
    assert row.unit
    assert catalog.source(row.source)["title"]
    assert assumptions.value(section, key) == row.value
    assert row.value >= 0
    if row.unit == "share":
        assert 0 < row.value <= 1.07  # one GPU boosts above the clock of its datasheet


@pytest.mark.parametrize("section", sorted({section for section, _ in FIGURES}))
def test_rows_by_gpu_name_known_gpus(section):
    keys = {key for where, key in FIGURES if where == section}
    if "default" in keys:
        assert keys - {"default"} <= set(catalog.gpu_ids())
        assert assumptions.value(section, "no-such-gpu") == assumptions.value(section, "default")


def test_a_missing_figure_is_named():
    with pytest.raises(CatalogError, match=r"^assumptions kernels: no_such_figure is missing$"):
        assumptions.value("kernels", "no_such_figure")
    with pytest.raises(CatalogError, match=r"^assumptions no.such.section: x is missing$"):
        assumptions.assumption("no.such.section", "x")


def test_kernels_are_kernels_alone():
    for key in ("request_overhead_ms", "load_overhead_ms", "decode_host_ms_per_sequence"):
        assert assumptions.value("timing.kernels", key) == 0
    assert assumptions.value("timing.kernels", "engine_factor") == 1
