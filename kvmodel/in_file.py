"""Text files that a reader gives, up to a size that fits in memory: also of a device that never ends."""

from __future__ import annotations

import errno
from pathlib import Path

from kvmodel.units import MIB, format_bytes

LARGEST_BYTES = 256 * MIB  # a trace of millions of requests


def read_text(path: str | Path) -> str:
    """UTF-8 text with its line ends as they are. Raises OSError, also where it is too large, or UnicodeDecodeError."""
    with Path(path).open("rb") as file:
        content = file.read(LARGEST_BYTES + 1)
    if len(content) > LARGEST_BYTES:
        raise OSError(errno.EFBIG, f"it is larger than {format_bytes(LARGEST_BYTES)}")
    return content.decode("utf-8-sig")
