"""The plotted numbers: fewer points where a pixel does not show the difference, and rows for CSV."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from kvmodel.arrays import Floats
from kvmodel.units import finite_or_none

Row = dict[str, float | str | None]
LINE_POINTS, BAND_POINTS = 61, 31


def thin(x: Floats, most: int = LINE_POINTS, keep: float | None = None) -> NDArray[np.intp]:
    """Indices of at most about `most` points of x, both ends and the point `keep` among them."""
    few = np.unique(np.rint(np.linspace(0, len(x) - 1, min(most, len(x)))).astype(int))
    here = np.flatnonzero(np.asarray(x) == keep) if keep is not None else np.array([], dtype=int)
    return np.union1d(few, here)


def rows(columns: Mapping[str, Floats], places: NDArray[np.intp] | slice = slice(None)) -> list[Row]:
    """The plotted numbers as rows for CSV, None for what is unknown."""
    values = {name: np.asarray(column, dtype=float)[places].tolist() for name, column in columns.items()}
    return [
        {name: finite_or_none(value) for name, value in zip(values, row, strict=True)}
        for row in zip(*values.values(), strict=True)
    ]
