"""How glibc keeps memory, so that what a visitor gave goes back to the machine with the visitor."""

from __future__ import annotations

import contextlib
import ctypes

from kvmodel.units import MIB

M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8  # malloc.h


def one_arena() -> None:
    """No arena of memory for each thread: they do not allocate at once, and hold 5 MB a replica.

    What is as large as a file keeps a place of its own, which goes back as a whole; glibc would raise that limit.
    """
    with contextlib.suppress(AttributeError, OSError):  # another libc
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MIB // 2)


def give_back() -> None:
    """Free pages between what is in use."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
