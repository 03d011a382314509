"""Figures that no datasheet states: each has a unit, a basis and a source, and a default serves unknown GPUs."""

import pytest

from kvmodel import catalog
from kvmodel.catalog import assumptions
from kvmodel.errors import CatalogError
from kvmodel.timing import engine_time


def _figures(table, path=()):
    for key, row in table.items():
        if isinstance(row, dict) and "value" in row:
            yield ".".join(path), key
        elif isinstance(row, dict):
            yield from _figures(row, (*path, key))


FIGURES = sorted({figure for file in assumptions.FILES for figure in _figures(catalog.table(file))})


def test_no_figure_stands_in_both_files():
    by_hand, fitted = (set(_figures(catalog.table(file))) for file in assumptions.FILES)
    assert not by_hand & fitted


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
    for gpu_id in catalog.gpu_ids():
        assert engine_time.engine_times(gpu_id, "kernels") == engine_time.EngineTimes()
