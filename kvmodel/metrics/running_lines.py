"""The lines that an engine prints while it runs, read as two scrapes: the server at the first line and at the last.

Printed rates become counters: each rate holds from the line before it. What a line does not print is "not reported",
never zero.
"""

from __future__ import annotations

import itertools
import re
import statistics
from collections.abc import Sequence
from dataclasses import replace

from kvmodel.errors import CaseError
from kvmodel.metrics import log_times
from kvmodel.metrics.engine_places import MOST_ENGINES
from kvmodel.metrics.running_line_forms import RANKS, READERS, Line, line_of
from kvmodel.metrics.server_state import SHARES, Engine, Server, share_of_one
from kvmodel.units import MIB
from kvmodel.words import say

LONGEST_TEXT = MIB // 2  # six hours of one engine; the window is a quarter of an hour
LONGEST_LINE = 4000
FEWEST = 4  # lines of a window, however far apart
WINDOW_S = 900.0  # what is said is of now: the rules look back as far
LAST_PART = "of the log what comes last was read, after its last start and no more than a quarter of an hour of it"
# A line that an engine prints as it starts: what runs before it is another process.
START = re.compile(
    r"Initializing an? (?:V\d )?LLM engine|vLLM API server version|non-default args: |Model loading took "
    r"|server_args=ServerArgs|Load weight begin|Starting TensorRT[- ]LLM"
)
MOST_LINES = 10_000  # an engine's own are of 120 characters and more, so that a text of this length has fewer


def any_in(text: str) -> bool:
    """Whether a text has a running line."""
    rows = (row[:LONGEST_LINE] for row in text[-LONGEST_TEXT:].splitlines())
    return any(line_of(row) is not None for row in rows if READ.search(row))


def read(text: str) -> tuple[Server, Server, float | None] | None:
    """The server at the first and at the last running line, and the seconds between; None where there are none.

    The seconds are None without times. Engines (data-parallel ranks) are told apart; of ranks that print the same
    requests the lowest counts. Raises CaseError for too many lines or engines.
    """
    if not any(marker in text for marker, _ in READERS):
        return None
    is_cut = len(text) > LONGEST_TEXT
    last = text[-LONGEST_TEXT:]  # of a long log what comes last
    has_start = START.search(last) is not None
    wanted = READ_OR_START if has_start else READ
    rows = [row[:LONGEST_LINE] for row in last.splitlines()[is_cut:] if wanted.search(row)]
    rows = after_last_start(rows) if has_start else rows
    read_rows = [(place, line) for place, row in enumerate(rows) if (line := line_of(row)) is not None]
    found = [line for _, line in read_rows]
    if not found:
        return None
    if len(found) > MOST_LINES:
        values = {"given": f"{len(found):,}", "most": f"{MOST_LINES:,}"}
        raise CaseError(say("log: {given} running lines given; allowed: up to {most}", **values))
    products = [line.product for line in found]
    product = max(dict.fromkeys(products), key=products.count)
    mine = [line for line in found if line.product == product]
    times = log_times.in_order([line.time_s for line in mine])
    every = [replace(line, time_s=time_s) for line, time_s in zip(mine, times, strict=True)]
    lines = last_window(every)
    if len(lines) < len(every):
        rows = rows[[place for place, line in read_rows if line.product == product][-len(lines)] :]
    times = [line.time_s for line in lines]
    groups: dict[tuple[tuple[str, str], ...], list[Line]] = {}
    for line in lines:
        groups.setdefault(line.labels, []).append(line)
    known = [time_s for time_s in times if time_s is not None]
    seconds = known[-1] - known[0] if known else 0.0
    if len(groups) > MOST_ENGINES:
        raise CaseError(say("log: more than {most:,} engines; allowed: fewer at a time", most=MOST_ENGINES))
    engines = [lowest_rank(group) for group in groups.values()]
    before, after = with_preemptions(rows, product, [pair_of(each) for each in engines])
    notes = notes_of(rows) + ((say(LAST_PART),) if is_cut or len(lines) < len(every) else ())
    return (
        Server(product, tuple(before), Engine(), {}, {}, notes),
        Server(product, tuple(after), Engine(), {}, {}, notes),
        seconds or max(steps_s(each) for each in engines) or None,
    )


def after_last_start(rows: list[str]) -> list[str]:
    """The rows after the last start that running lines follow; all where there is none."""
    places = range(len(rows) - 1, -1, -1)
    last = next((place for place in places if line_of(rows[place]) is not None), 0)
    return rows[next((place for place in range(last, -1, -1) if START.search(rows[place])), 0) :]


def last_window(lines: list[Line]) -> list[Line]:
    """The lines of the last WINDOW_S, at least FEWEST of them: what went before tells of another hour.

    Where requests are there to the end and nothing comes of them any more, only the lines since then.
    """
    times = [line.time_s for line in lines]
    if not times or None in times:
        return lines
    first = next(place for place, time_s in enumerate(times) if (times[-1] or 0.0) - (time_s or 0.0) <= WINDOW_S)
    still = len(list(itertools.takewhile(stands_still, reversed(lines))))
    if FEWEST <= still < len(lines):
        return lines[max(first, len(lines) - still) :]
    return lines[min(first, max(len(lines) - FEWEST, 0)) :]


def stands_still(line: Line) -> bool:
    """Whether requests run or wait at a line, and no token is read or written."""
    there = line.gauges.get("running", 0.0) + line.gauges.get("waiting", 0.0)
    return there >= 1 and bool(line.rates) and not any(line.rates.values())


def lowest_rank(lines: Sequence[Line]) -> list[Line]:
    """The lines of the lowest rank: the others of an engine print the same requests."""
    lowest = min(line.rank for line in lines)
    return [line for line in lines if line.rank == lowest]


def pair_of(lines: Sequence[Line]) -> tuple[Engine, Engine]:
    """One engine at its first and last line; counters start at 0 with the first."""
    counters: dict[str, float] = {}
    for earlier, line in itertools.pairwise(lines):
        for word, count in line.counts.items():
            counters[word] = counters.get(word, 0.0) + count * steps_between(earlier, line)
    for word in dict.fromkeys(word for line in lines for word in line.rates):
        timed = [line for line in lines if word in line.rates and line.time_s is not None]
        for earlier, line in itertools.pairwise(timed):
            passed_s = (line.time_s or 0.0) - (earlier.time_s or 0.0)
            counters[word] = counters.get(word, 0.0) + line.rates[word] * passed_s
    first, last = gauges_of(lines), gauges_of(lines[::-1])
    labels = dict(lines[0].labels)
    return Engine(labels, first, dict.fromkeys(counters, 0.0)), Engine(labels, last, counters)


def steps_between(earlier: Line, line: Line) -> int:
    """Steps from a line to the next: one, unless lines between are missing."""
    return max(1, line.step - earlier.step) if line.step is not None and earlier.step is not None else 1


def steps_s(lines: Sequence[Line]) -> float:
    """Time of the printed steps after the first, for lines whose clock shows no difference. [s]"""
    return sum(steps_between(earlier, line) * line.step_s for earlier, line in itertools.pairwise(lines))


def gauges_of(lines: Sequence[Line]) -> dict[str, float]:
    """Of each gauge the middle one of the first third of its values: one line of calm, or of a rush, is an accident."""
    values: dict[str, list[float]] = {}
    for line in lines:
        for word, value in line.gauges.items():
            values.setdefault(word, []).append(value)
    middle = {word: statistics.median_low(each[: max(len(each) // 3, 1)]) for word, each in values.items()}
    return {word: share_of_one(value, word, "log") if word in SHARES else value for word, value in middle.items()}


# --- preemptions ---

CUMULATIVE = re.compile(r"total_num_cumulative_preemption=([0-9]{1,12})")
RETRACTED = re.compile(r"KV cache pool is full\. Retract requests\. #retracted_reqs: ([0-9]{1,9})")
READ = re.compile(  # of a pasted log a few rows are read, and each is looked at several times
    "|".join((*(re.escape(marker) for marker, _ in READERS), "total_num_cumulative_preemption=", "Retract requests"))
)
READ_OR_START = re.compile(f"{READ.pattern}|{START.pattern}")


def with_preemptions(
    rows: Sequence[str], product: str, pairs: Sequence[tuple[Engine, Engine]]
) -> tuple[list[Engine], list[Engine]]:
    """The engines with what lines of their own say of preemptions: V0's count since the start, SGLang's retractions."""
    before, after = (list(engines) for engines in zip(*pairs, strict=True))
    totals = preemption_totals(rows, product)
    if totals is None or any("preemptions" in engine.counters for engine in after):
        return before, after
    for by_dp, side in zip(totals, (before, after), strict=True):
        for engine in side:
            engine.counters["preemptions"] = by_dp.get(engine.labels.get("dp_rank", ""), 0.0)
    return before, after


def preemption_totals(rows: Sequence[str], product: str) -> tuple[dict[str, float], dict[str, float]] | None:
    """Preemptions at the first and at the last line, by data-parallel rank; None where no line counts them.

    Of V0's count, which it prints with every 50th, what lies before the first printed one is not known: the window
    has at least that one.
    """
    if product == "vllm":
        counted = [float(match[1]) for row in rows if (match := CUMULATIVE.search(row))]
        return ({"": max(0.0, counted[0] - 1)}, {"": max(counted)}) if counted else None
    if product != "sglang":
        return None
    first: dict[str, float] = {}
    last: dict[str, float] = {}
    started = False
    for row in rows:
        started = started or ("batch" in row and line_of(row) is not None)
        match = RETRACTED.search(row) if started else None
        if match:
            rank = RANKS["DP"].search(row[: match.start()])
            dp = rank[1] if rank else ""
            first[dp], last[dp] = 0.0, last.get(dp, 0.0) + float(match[1])
    return (first, last) if last else None


def notes_of(rows: Sequence[str]) -> tuple[str, ...]:
    """What a reader has to know of V0's count."""
    counted = [match[1] for row in rows if (match := CUMULATIVE.search(row))]
    if not counted:
        return ()
    note = (
        "{count} preemptions since the start, printed with every 50th: how many of them fall into these lines is open"
    )
    return (say(note, count=counted[-1]),)
