"""What is done to an input of :mod:`benchmarks.mutated_inputs`: lines, bytes, cells, places of JSON."""

import json
import random
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlencode

LARGEST = (20_000,) * 9 + (1_000_000,)  # bytes that an input may grow to
LARGEST_CASES = (20_000,) * 9 + (100_000,)  # of a table with a case a row, which is computed
NUMBERS = [
    *"-1 0 -0 NaN Inf -Inf 1e400 1e-400 1e18 0x10 1,5 1_0 None 1.01 ٣ ¹ 9.9.9".split(), "", "9" * 400, "7" * 5000,
]  # fmt: skip
VALUES = [None, True, "x", "", "٣", "\0", -1, 0, 0.5, 1e-300, 1e308, 10**30, 10**4000, [], {}, [[]], {"a": {}}]
BYTES = [b"\0", b"\xff\xfe", b"\x1b[31m", b"\xc2\xa0", "٣".encode(), b'"', b"\\", b"{", b"}", b",", b"=", b"\r", b" "]
KEYS = ("iter", "data", "", "text_config", "model_type", "layer_types", "per_layer_config", "quantization_config")


def of_lines(content: bytes, draw: random.Random, most: int) -> bytes:
    """Lines taken out, doubled, moved, joined, repeated many times, or for many engines, or with many labels."""
    lines = content.split(b"\n")
    at, kind = draw.randrange(len(lines)), draw.randrange(7)
    part = lines[at : at + draw.choice((1, 3, 20, len(lines)))]
    times = most // (sum(map(len, part)) + len(part)) + 1
    if kind == 0:
        del lines[at : at + draw.choice((1, 3, 30))]
    elif kind == 1:
        lines[at:at] = part * draw.choice((1, 2, times))
    elif kind == 2:
        draw.shuffle(lines)
    elif kind == 3:
        return draw.choice((b"", b" ", b"\r", b"\r\n")).join(lines)
    elif kind == 4:
        lines = [of_rank(line, rank) for rank in range(min(times, draw.choice((2, 60, 1000)))) for line in part]
    elif kind == 5:
        labels = (b'a%d="%d"' % (n, n) for n in range(draw.choice((5, 300, most // 16))))
        lines[at] = lines[at].replace(b"{", b"{" + b",".join(labels) + b",", 1)
    else:
        for index in (draw.randrange(len(lines)) for _ in range(draw.choice((1, 5, 50)))):
            lines[index] = lines[index].rsplit(b" ", 1)[0] + b" " + draw.choice(NUMBERS).encode()
    return b"\n".join(lines)


def of_rank(line: bytes, rank: int) -> bytes:
    """A line as another engine would print it."""
    return re.sub(rb'((?:engine|dp_rank|tp_rank)="|\bDP|\bTP|Engine )[0-9]+', rb"\g<1>%d" % rank, line)


def of_bytes(content: bytes, draw: random.Random, most: int) -> bytes:
    """Numbers changed, a cut, a part taken out, doubled or repeated, odd bytes, very long words."""
    start, kind = draw.randrange(len(content) + 1), draw.randrange(6)
    end = start + draw.choice((1, 2, 8, 60, 400))
    part = content[start:end]
    if kind == 0:
        share = draw.choice((0.02, 0.2, 1.0))
        number = rb"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
        return re.sub(number, lambda m: draw.choice(NUMBERS).encode() if draw.random() < share else m[0], content)
    if kind == 1:
        return content[:start] if draw.random() < 0.7 else content[start:]
    if kind == 2:
        return content[:start] + part * draw.choice((0, 0, 2, 3, 50, most // (len(part) + 1))) + content[end:]
    if kind == 3:
        return content[:start] + draw.choice(BYTES) * draw.choice((1, 1, 1, 50, most)) + content[start:]
    if kind == 4:
        raw = bytearray(content)
        for at in (draw.randrange(len(raw)) for _ in range(draw.choice((1, 5, 100)) if raw else 0)):
            raw[at] = draw.randrange(256)
        return bytes(raw)
    words = re.findall(rb"[A-Za-z_]{3,}", content[start : start + 500]) or [b"x"]
    word = draw.choice(words)
    return content.replace(word, word * draw.choice((0, 2, 100, most // len(word))), draw.choice((1, 3)))


def of_tree(value: Any, draw: random.Random, most: int, often: float) -> Any:
    """JSON with places taken out, replaced by another type, nested deep, repeated or under another key."""
    if draw.random() < often:
        kind, many = draw.randrange(5), draw.choice((3, 60, most // (len(str(value)) + 12)))
        if kind == 0:
            return {str(number): value for number in range(many)}
        if kind == 1:
            return [value] * many
        if kind == 2:
            for _ in range(draw.choice((1, 5, 200))):
                value = {draw.choice(KEYS): value} if draw.random() < 0.5 else [value]
            return value
        if kind == 3 and isinstance(value, int | float):
            return draw.choice((-value, value * 1000, value / 3, str(value), float(value), value + 1, bool(value)))
        return draw.choice(VALUES)
    if isinstance(value, dict):
        parts = [(key, of_tree(part, draw, most, often)) for key, part in value.items() if draw.random() > often]
        return {draw.choice(KEYS) if draw.random() < often / 2 else key: part for key, part in parts}
    return [of_tree(part, draw, most, often) for part in value] if isinstance(value, list) else value


def of_cells(content: bytes, draw: random.Random, most: int) -> bytes:
    """Cells of a table changed, columns taken out, doubled, named twice or in quotes, rows repeated many times."""
    rows = [line.split(b",") for line in content.split(b"\n") if line]
    at, kind = draw.randrange(len(rows) or 1), draw.randrange(6)
    column = draw.randrange(len(rows[0]) if rows else 1)
    if kind == 0:
        for row in draw.choices(rows, k=draw.choice((1, 5, 100))) if rows else ():
            row[draw.randrange(len(row))] = draw.choice(NUMBERS).encode()
    elif kind == 1:
        rows = [row[:column] + row[column + 1 :] for row in rows]
    elif kind == 2:
        rows = [row + row[column : column + 1] * draw.choice((1, 50)) for row in rows]
    elif kind == 3:
        rows[at : at + 1] = rows[at : at + 1] * draw.choice((2, 100, most // (len(content) + 1) * 20))
    elif kind == 4 and rows:
        rows[at][column % len(rows[at])] = b'"' + draw.choice((b"", b"\n", b",", b'""')) * draw.choice((1, 200, most))
    else:
        factor = 10.0 ** draw.randrange(-12, 13)
        rows = [[scaled(cell, factor) if place == column else cell for place, cell in enumerate(row)] for row in rows]
    return b"\n".join(b",".join(row) for row in rows)


def scaled(cell: bytes, factor: float) -> bytes:
    try:
        return b"%g" % (float(cell) * factor)
    except ValueError:
        return cell


def of_query(content: bytes, draw: random.Random, most: int) -> bytes:
    """Values of a link changed, swapped, very long, given twice, left out, or under another key."""
    pairs = [list(pair) for pair in parse_qsl(content.decode("utf-8", "replace"), keep_blank_values=True)]
    for pair in draw.sample(pairs, min(len(pairs), draw.choice((1, 1, 1, 2, 5)))):
        kind = draw.randrange(7)
        if kind == 0:
            pair[1] = draw.choice(NUMBERS)
        elif kind == 1:
            pair[1] = draw.choice(pairs)[1]
        elif kind == 2:
            pairs.append([pair[0], pair[1] * draw.choice((0, 1, 2, most // (len(pair[1]) + 1)))])
        elif kind == 3:
            pairs = [other for other in pairs if other is not pair]
        elif kind == 4:
            pair[0] = draw.choice((*KEYS, "v", "a" * draw.choice((1, 300, most))))
        elif kind == 5:
            pair[1] = re.sub(r"[0-9]+", lambda found: str(int(found[0][:18]) * draw.choice((0, 1, 3, 1000))), pair[1])
        else:
            pair[1] = of_bytes(pair[1].encode(), draw, most).decode("utf-8", "replace")
    return urlencode([tuple(pair) for pair in pairs]).encode()


TABLE = (of_cells, of_cells, of_lines, of_bytes)
WAYS: dict[str, tuple[Callable[..., bytes], ...]] = {
    "table": TABLE, "cases": TABLE, "link": (of_query, of_query, of_query, of_bytes),
}  # fmt: skip


def mutant(content: bytes, draw: random.Random, form: str) -> bytes:
    """One to four changes, one after another; of JSON mostly such as leave it JSON. `form` is JSON or one of WAYS."""
    most = draw.choice(LARGEST_CASES if form == "cases" else LARGEST)
    ways = WAYS.get(form, (of_lines, of_bytes))
    if form == "JSON" and draw.random() < 0.9:
        value = of_tree(json.loads(content), draw, most, draw.choice((0.001, 0.003, 0.01, 0.02, 0.1)))
        text = json.dumps(value, ensure_ascii=draw.random() < 0.5, indent=draw.choice((None, 1)))
        content, ways = text.encode("utf-8", "replace"), (of_bytes,) if draw.random() < 0.1 else ()
    for way in draw.choices(ways, k=draw.choice((1, 1, 2, 4))) if ways else ():
        content = way(content, draw, most)[: 2 * most]
    return content
