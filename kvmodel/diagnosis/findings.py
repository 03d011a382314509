"""One window of a server judged."""

from __future__ import annotations

from dataclasses import dataclass

from kvmodel.diagnosis.causes import Diagnosis
from kvmodel.diagnosis.recompute_tax import Tax
from kvmodel.metrics.server_rates import Rates
from kvmodel.metrics.server_window import Window


@dataclass(frozen=True)
class Findings:
    """One window judged."""

    window: Window
    rates: Rates
    tax: Tax | None
    diagnosis: Diagnosis
