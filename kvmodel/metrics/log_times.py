"""Times at the head of log lines: with a year, without one, as a system journal writes them; and their order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from kvmodel.units import DAY

CLOCK = r"([0-2]\d):([0-5]\d):([0-5]\d)(?:[.,](\d{1,6}))?"
MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
FORMS = (  # where year, month and day stand; the first form that is there counts
    (re.compile(rf"(?<!\d)(\d{{4}})-(\d\d)-(\d\d)[ T]{CLOCK}"), (1, 2, 3)),
    (re.compile(rf"(?<!\d)(\d\d)[-/](\d\d)[-/](\d{{4}})[ T-]{CLOCK}"), (3, 1, 2)),
    (re.compile(rf"(?<!\d)(\d\d)-(\d\d) {CLOCK}"), (0, 1, 2)),
    (re.compile(rf"\b({'|'.join(MONTHS)}) {{1,2}}(\d{{1,2}}) {CLOCK}"), (0, 1, 2)),
)  # fmt: skip
NO_YEAR = 2000  # a leap year: 29 February has its day
YEAR_S = 366 * DAY


def time_of(row: str) -> float | None:
    """Seconds of a line's time since an arbitrary day, None where it has none. [s]"""
    for pattern, places in FORMS:
        match = pattern.search(row)
        if match:
            year, month, day = (match[place] if place else str(NO_YEAR) for place in places)
            number = MONTHS.index(month) + 1 if month in MONTHS else int(month)
            hour, minute, second = (int(match[match.re.groups - back]) for back in (3, 2, 1))
            fraction = float(f"0.{match[match.re.groups] or 0}")
            try:
                moment = datetime(int(year), number, int(day), hour, minute, second, tzinfo=UTC)
            except ValueError:
                return None
            return moment.timestamp() + fraction
    return None


def in_order(times: Sequence[float | None]) -> list[float | None]:
    """The same times, never falling: past new year without a year they go on, and a step back is no time. [s]"""
    ordered: list[float | None] = []
    years_s, latest = 0.0, None
    for printed in times:
        time_s = printed
        if time_s is not None:
            time_s += years_s
            if latest is not None and time_s < latest - YEAR_S / 2:
                years_s += YEAR_S
                time_s += YEAR_S
            latest = time_s = time_s if latest is None else max(time_s, latest)
        ordered.append(time_s)
    return ordered
