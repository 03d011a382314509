"""Files: what a reader gives is read up to a size, what is written is whole or not at all; rows as CSV."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kvmodel.errors import unusable
from kvmodel.units import MIB, format_bytes

DATA = Path(__file__).parent / "data"
LARGEST_BYTES = 256 * MIB  # a trace of millions of requests


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


def read_text(path: str | Path) -> str:
    """UTF-8 text with its line ends as they are. Raises OSError, also where it is too large, or UnicodeDecodeError."""
    with Path(path).open("rb") as file:
        content = file.read(LARGEST_BYTES + 1)
    if len(content) > LARGEST_BYTES:
        raise OSError(errno.EFBIG, f"it is larger than {format_bytes(LARGEST_BYTES)}")
    return content.decode("utf-8-sig")
