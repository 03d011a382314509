"""Files: what a reader gives is read up to a size, what is written is whole or not at all; rows as CSV."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from kvmodel.errors import unusable
from kvmodel.units import KIB, MIB, format_bytes

DATA = Path(__file__).parent / "data"
LARGEST_BYTES = 256 * MIB  # a trace of millions of requests
LONGEST_LINE = 64 * KIB  # characters of a table's line
MOST_LINES_OF_ROW = 100  # of a table, where quotes hold line ends


def write(path: str, content: str | bytes) -> None:
    """Write all of it or leave what was there. Raises CaseError where the file cannot be written."""
    import tempfile  # with csv below: a single answer, which writes nothing, does without

    target, body = Path(path), content.encode() if isinstance(content, str) else content
    try:
        if target.exists() and not target.is_file():  # a pipe or a device has no other name to be written under
            target.write_bytes(body)
            return
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:40]}.")
        try:
            with open(descriptor, "wb") as file:
                file.write(body)
            os.chmod(name, target.stat().st_mode if target.exists() else 0o666 & ~current_umask())
            os.replace(name, target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:
        raise unusable("-o", path, error, "written") from None


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def columns_of(points: Sequence[Mapping[str, Any]]) -> list[str]:
    """The columns of all points, in order of appearance."""
    return list(dict.fromkeys(key for point in points for key in point))


def as_csv(points: list[dict[str, Any]]) -> str:
    """Points with the columns of all of them."""
    import csv
    import io

    columns = columns_of(points)
    file = io.StringIO()
    writer = csv.DictWriter(file, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(points)
    return file.getvalue()


def read_text(path: str | Path, largest_bytes: int) -> str:
    """UTF-8 text with its line ends as they are. Raises OSError, also where it is too large, or UnicodeDecodeError."""
    with Path(path).open("rb") as file:
        content = file.read(largest_bytes + 1)
    if len(content) > largest_bytes:
        raise _too_much(f"it is larger than {format_bytes(largest_bytes)}")
    return content.decode("utf-8-sig")


def open_text(path: str | Path) -> TextIO:
    """UTF-8 text with its line ends as they are, to be read piece by piece. Raises OSError or ValueError."""
    return Path(path).open(encoding="utf-8-sig", newline="")


def table_rows(file: TextIO, most_rows: int) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV file, each with the number of its last line, one at a time; blank lines count as none.

    Raises OSError where there is more of it than allowed, UnicodeDecodeError, csv.Error.
    """
    import csv

    begins, size, rows = 1, 0, 0

    def lines() -> Iterator[str]:
        nonlocal size
        while line := file.readline(LONGEST_LINE + 1):
            size += len(line)
            if len(line) > LONGEST_LINE:
                raise _too_much(f"line {reader.line_num + 1:,} is longer than {LONGEST_LINE:,} characters")
            if reader.line_num >= begins + MOST_LINES_OF_ROW:
                raise _too_much(f"the row that begins in line {begins:,} has more than {MOST_LINES_OF_ROW} lines")
            if size > LARGEST_BYTES:
                raise _too_much(f"it is larger than {format_bytes(LARGEST_BYTES)}")
            yield line

    reader = csv.reader(lines())
    for row in reader:
        begins = reader.line_num + 1
        if not row:
            continue
        if (rows := rows + 1) > most_rows + 1:
            raise _too_much(f"it has more than {most_rows:,} rows below its heading")
        yield reader.line_num, row


def _too_much(reason: str) -> OSError:
    return OSError(errno.EFBIG, reason)
