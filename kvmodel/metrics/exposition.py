"""The text of a `/metrics` page, in Prometheus or OpenMetrics form, to samples; a broken line costs that line only.

`prometheus_client` parses label sets that are not plain. Its reader of whole texts stops at the first broken line and
takes 30 µs a line, so lines are cut here and each different label set is parsed once: the bucket bound `le`, which
alone differs within a histogram, is taken out first.
"""

from __future__ import annotations

import codecs
import math
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kvmodel.errors import LONGEST_ECHO, CaseError, shown_name
from kvmodel.metrics import trtllm_json
from kvmodel.units import MIB, format_bytes
from kvmodel.words import say

LONGEST_TEXT = 8 * MIB  # 200 engines with all their histograms; also what a gzip file may unpack to
MOST_LINES = 300_000
MOST_MEMBERS = 100  # gzip files that are joined in one: after each, what follows is copied
MOST_SERIES = 100_000  # of those that are read
MOST_LABEL_SETS = 20_000  # a server has about a dozen, its buckets' bounds left out
NAMED = 3  # broken lines that are shown
LONGEST_LABELS = (
    8_000  # characters; vLLM's whole configuration takes 2,000, and the parser's time grows with the square
)
LARGEST_VALUE = 1e18  # no counter of a server gets so far: what is larger is a broken line
LINE = re.compile(
    r"^[ \t]*+(?:([a-zA-Z_:][a-zA-Z0-9_:.]*+)[ \t]*+"  # name
    r'(?:\{((?:[^"}\n]++|"(?:[^"\\\n]++|\\.)*+")*+)\})?+[ \t]*+'  # {labels}
    r"([-+]?(?:[0-9.][0-9.eE+-]*+|[iI]nf(?:inity)?|[nN]a[nN]|None|null|nil))"  # value
    r"(?:[ \t]++-?[0-9.eE+]++)?+[ \t]*+(?:\#[^\n]*+)?+"  # time, # exemplar
    r"|\#([^\n]*+)|)\r?$"  # or a comment, or nothing
    r"|^(.+)$",  # or a broken line
    re.MULTILINE,
)
QUOTED = re.compile(r'^([ \t]*)\{[ \t]*"([a-zA-Z_:][a-zA-Z0-9_:.]*)"[ \t]*,?', re.MULTILINE)  # since Prometheus 3
COMMENT = re.compile(r"\s*(?:HELP|TYPE|UNIT)\s+\"?([a-zA-Z_:][a-zA-Z0-9_:.]*)")
LABEL = r'(?!__)([a-zA-Z_][a-zA-Z0-9_]*+)="([^"\\\n]*+)"'  # without escapes or blanks
PLAIN, ONE = re.compile(rf"{LABEL}(?:,{LABEL})*+,?"), re.compile(LABEL)
BOUND = re.compile(r'(?:^|(?<=,))\s*le\s*=\s*"([^"]*)"\s*,?')
NOT_REPORTED = {"none", "null", "nil", "nan"}
BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
CUT = "to cut it: grep -E '^(vllm|sglang|trtllm|nv_trt_llm)' FILE | grep -v _bucket"
GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class Sample:
    """One series of a scrape. `le` is the upper bound of a histogram's bucket; `value` None is "not reported"."""

    name: str
    labels: dict[str, str]
    le: float | None
    value: float | None


@dataclass(frozen=True)
class Scrape:
    """The samples that were asked for, every family's name, and what was wrong, a sentence each."""

    samples: tuple[Sample, ...]
    sampled: frozenset[str]  # names of all samples, read or not
    described: frozenset[str]  # names in HELP and TYPE lines
    notes: tuple[str, ...] = ()


def read_scrape(data: bytes | str, is_wanted: Callable[[str], bool], *, what: str = "SCRAPE") -> Scrape:
    """The samples whose name is wanted. Raises CaseError, one sentence, for what is no scrape at all.

    Negative, infinite and NaN values are "not reported", and so are those that spell None.
    """
    notes: list[str] = []
    text = trtllm_json.as_exposition(as_text(data, notes, what), notes, what)
    refuse_other_formats(text, what)
    if '{"' in text:
        text = QUOTED.sub(r"\1\2{", text)
    series, names, comment_names, broken, twice = cut(text, is_wanted)
    if len(series) > MOST_SERIES:
        values = {"what": what, "most": MOST_SERIES}
        raise CaseError(say("{what}: more than {most:,} series of engines; allowed: fewer engines at a time", **values))
    samples, bad_labels = parsed(series, what)
    places = [(text.count("\n", 0, start) + 1, line) for start, line in broken[:NAMED]]
    notes += broken_notes(places + bad_labels, len(broken) + len(bad_labels))
    if twice:
        notes.append(say("{twice:,} series stand in it twice; the later value counts", twice=twice))
    return Scrape(samples, frozenset(names), frozenset(comment_names), tuple(notes))


Series = dict[tuple[str, str], float | None]  # by name and text of the labels


def cut(
    text: str, is_wanted: Callable[[str], bool]
) -> tuple[Series, dict[str, bool], set[str], list[tuple[int, str]], int]:
    """Wanted series, names and whether each is wanted, names in comments, broken lines, and how many came twice."""
    series: Series = {}
    names: dict[str, bool] = {}
    comment_names: set[str] = set()
    broken: list[tuple[int, str]] = []
    twice = 0
    for match in LINE.finditer(text):
        name, labels, number, comment, other = match.groups()
        if name is None:
            if comment is not None and (declaration := COMMENT.match(comment)):
                comment_names.add(declaration[1].replace(".", "_"))
            elif other is not None:
                broken.append((match.start(), other))
            continue
        if "." in name:  # of OpenTelemetry
            name = name.replace(".", "_")
        keep = names.get(name)
        if keep is None:
            keep = names[name] = is_wanted(name)
        if keep:
            value = number_of(number)
            unread = value is None and number.lstrip("+-").lower() not in NOT_REPORTED
            if unread or (value is not None and LARGEST_VALUE < value < math.inf):
                broken.append((match.start(), match[0]))
                continue
            key = (name, labels or "")
            twice += key in series
            series[key] = value if value is not None and 0 <= value < math.inf else None
    return series, names, comment_names, broken, twice


def as_text(data: bytes | str, notes: list[str], what: str) -> str:
    """Text of a scrape that may be gzipped or UTF-16. Raises CaseError where it is too long."""
    if isinstance(data, bytes):
        if data.startswith(GZIP):
            data = unzipped(data, notes, what)
        encoding = next((name for bom, name in BOMS.items() if data.startswith(bom)), "utf-8")
        data = data.decode(encoding, errors="replace")
    if len(data) > LONGEST_TEXT:
        values = {"what": what, "most": format_bytes(LONGEST_TEXT)}
        raise CaseError(say("{what}: more than {most} given; allowed: up to that; {cut}", **values, cut=say(CUT)))
    if (lines := data.count("\n")) > MOST_LINES:
        values = {"what": what, "given": f"{lines:,}", "most": f"{MOST_LINES:,}"}
        raise CaseError(say("{what}: {given} lines given; allowed: up to {most}; {cut}", **values, cut=say(CUT)))
    return data


def unzipped(data: bytes, notes: list[str], what: str) -> bytes:
    """The unpacked bytes, of all members of a file, and what there is of one that ends early.

    Raises CaseError where it is no gzip or too long.
    """
    text, members = b"", 0
    while data.startswith(GZIP):
        if (members := members + 1) > MOST_MEMBERS:
            values = {"what": what, "most": MOST_MEMBERS}
            raise CaseError(say("{what}: more than {most} gzip files joined in one; allowed: one of them", **values))
        unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        try:
            text += unpacker.decompress(data, LONGEST_TEXT + 1 - len(text))
        except zlib.error:
            reason = say("{what}: starts like gzip but cannot be unpacked; allowed: text, or gzip of it", what=what)
            raise CaseError(reason) from None
        if unpacker.unconsumed_tail or len(text) > LONGEST_TEXT:
            values = {"what": what, "most": format_bytes(LONGEST_TEXT)}
            raise CaseError(
                say("{what}: unpacks to more than {most}; allowed: up to that; {cut}", **values, cut=say(CUT))
            )
        if not unpacker.eof:
            notes.append(say("the gzip file ends early; what is there was read"))
        data = unpacker.unused_data
    return text


def refuse_other_formats(text: str, what: str) -> None:
    """Raises CaseError for what is easily taken for a scrape: nothing, a web page."""
    start = text[:200].lstrip().lower()
    if not start and not text.strip():
        raise CaseError(say("{what}: empty; allowed: the text of an engine's /metrics page", what=what))
    if start.startswith(("<!doctype", "<html", "<?xml")):
        raise CaseError(say("{what}: a web page was given; allowed: the text of an engine's /metrics page", what=what))


def number_of(text: str) -> float | None:
    """A value as exporters write it: `1e+010`, `+Inf`, `NaN`; None for what is no number."""
    if "_" in text:  # Python allows 1_000
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) else value


def bound_of(labels: str) -> tuple[float | None, str]:
    """The bucket's bound, and the labels without it. Times and lengths have none below zero."""
    match = BOUND.search(labels)
    if match is None or (bound := number_of(match[1])) is None or bound < 0:
        return None, labels
    return bound, labels[: match.start()] + labels[match.end() :]


def parsed(series: Series, what: str) -> tuple[tuple[Sample, ...], list[tuple[int, str]]]:
    """Samples with their labels parsed, and the series whose labels `prometheus_client` refuses."""
    labels_by_text: dict[str, dict[str, str] | None] = {}
    samples, bad_labels = [], []
    for (name, text), value in series.items():
        le, rest = bound_of(text) if name.endswith("_bucket") else (None, text)
        if rest not in labels_by_text:
            labels_by_text[rest] = labels_of(rest)
            if len(labels_by_text) > MOST_LABEL_SETS:
                values = {"what": what, "most": MOST_LABEL_SETS}
                raise CaseError(
                    say("{what}: more than {most:,} different label sets; allowed: fewer engines", **values)
                )
        labels = labels_by_text[rest]
        if labels is None:
            bad_labels.append((0, f"{name}{{{text}}}"))
        else:
            samples.append(Sample(name, labels, le, value))
    return tuple(samples), bad_labels


def labels_of(text: str) -> dict[str, str] | None:
    """The labels between two braces, or None where they are broken or far more than an engine has."""
    if len(text) > LONGEST_LABELS:
        return None
    if PLAIN.fullmatch(text) and len(labels := dict(pairs := ONE.findall(text))) == len(pairs):
        return labels
    from prometheus_client.parser import text_string_to_metric_families  # heavy: it brings a web server

    try:
        (family,) = text_string_to_metric_families(f"x{{{text}}} 1\n")
        (sample,) = family.samples
    except (ValueError, IndexError):
        return None
    return dict(sample.labels)


def broken_notes(places: list[tuple[int, str]], count: int) -> Iterator[str]:
    """The first broken lines by number (0: not known), then how many more."""
    for number, line in places[:NAMED]:
        where = say("line {number:,}", number=number) if number else say("a line")
        cut_off = "..." if len(line) > LONGEST_ECHO else ""
        yield say("{where} is broken and was left out: {shown}", where=where, shown=shown_name(line) + cut_off)
    if count > NAMED:
        yield say("{count:,} more lines are broken and were left out", count=count - NAMED)
