"""Type names for numbers that may be arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Numbers = float | NDArray[np.float64] | NDArray[np.int64]
