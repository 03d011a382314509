"""Host memory behind the GPU's blocks: swap space, or a second prefix cache that loses what was used least recently."""

from __future__ import annotations


class HostPool:
    """Blocks kept for each request, oldest first; a sequence's tail goes before its head."""

    __slots__ = ("_kept", "free")

    def __init__(self, blocks: int) -> None:
        self.free = blocks
        self._kept: dict[int, int] = {}

    def keep(self, owner: int, blocks: int) -> bool:
        """Swap space: all of a sequence's blocks, or none where there is no room."""
        if blocks > self.free:
            return False
        self.free -= blocks
        self._kept[owner] = blocks
        return True

    def drop(self, owner: int) -> int:
        """Give back what is kept for a sequence. [blocks]"""
        blocks = self._kept.pop(owner, 0)
        self.free += blocks
        return blocks

    def store(self, owner: int, blocks: int) -> int:
        """A tier: keep a sequence's first `blocks`, at the cost of what was used least recently; how many are new."""
        before = self._kept.pop(owner, 0)
        new = max(0, blocks - before)
        while new > self.free and self._kept:
            oldest = next(iter(self._kept))
            evicted = min(self._kept[oldest], new - self.free)
            self.free += evicted
            self._kept[oldest] -= evicted
            if not self._kept[oldest]:
                del self._kept[oldest]
        new = min(new, self.free)
        self.free -= new
        if before + new:
            self._kept[owner] = before + new
        return new

    def find(self, owner: int) -> int:
        """Blocks of a sequence that are here; it counts as a use. [blocks]"""
        if owner not in self._kept:
            return 0
        self._kept[owner] = blocks = self._kept.pop(owner)
        return blocks
