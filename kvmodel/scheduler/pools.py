"""The GPU's free blocks as vLLM V1 keeps them: unhashed ones first, then what finished and preempted requests left.

A sequence's full blocks keep their content until somebody takes them, tail of the sequence first, so a request that
comes back soon finds its prefix. Counts are enough: who held a block matters only as a chain of so many blocks.

Source: vLLM 0.33, `v1/core/block_pool.py`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(slots=True)
class Chain:
    """Freed full blocks of one sequence: its first `blocks`, or those at `positions`, next to be taken first."""

    blocks: int
    positions: list[int] | None = None

    def left(self) -> list[int]:
        if self.positions is None:
            return list(range(self.blocks - 1, -1, -1))
        return self.positions[len(self.positions) - self.blocks :]


class BlockPool:
    """`free` of `total` blocks, of which the cached ones can still be found by their former owner."""

    __slots__ = ("_chains", "_queue", "_unhashed", "free", "total")

    def __init__(self, blocks: int) -> None:
        self.total = self.free = self._unhashed = blocks
        self._queue: deque[Chain] = deque()  # least recently freed first
        self._chains: dict[int, list[Chain]] = {}

    def take(self, blocks: int) -> None:
        """Use free blocks; what was cached in them is lost. The caller has checked that there are enough."""
        self.free -= blocks
        self._unhashed -= blocks
        if self._unhashed < 0:
            self._evict(-self._unhashed)
            self._unhashed = 0

    def _evict(self, blocks: int) -> None:
        while blocks:
            chain = self._queue[0]
            if chain.blocks > blocks:
                chain.blocks -= blocks
                return
            blocks -= chain.blocks
            chain.blocks = 0
            self._queue.popleft()

    def release(self, owner: int, blocks: int, cached_blocks: int, *, returns: bool) -> None:
        """Free a sequence's blocks, the first `cached_blocks` with their content; `returns` if it will ask for them."""
        self.free += blocks
        self._unhashed += blocks - cached_blocks
        if cached_blocks:
            chain = Chain(cached_blocks)
            self._queue.append(chain)
            if returns:
                self._chains.setdefault(owner, []).append(chain)
        if not returns:
            self._chains.pop(owner, None)

    def cached(self, owner: int) -> int:
        """Blocks from its first on that are left of a sequence. [blocks]"""
        chains = self._chains.get(owner, ())
        if not chains:
            return 0
        if len(chains) == 1 and chains[0].positions is None:
            return chains[0].blocks
        positions = {position for chain in chains for position in chain.left()}
        return next(position for position in range(len(positions) + 1) if position not in positions)

    def reuse(self, owner: int, most: int) -> int:
        """Take back what is left of a sequence's first `most` blocks; how many. [blocks]"""
        chains = self._chains.pop(owner, [])
        if len(chains) == 1 and chains[0].positions is None and chains[0].blocks <= most:
            count = chains[0].blocks
            chains[0].blocks = 0
        else:
            count = self._reuse_each(chains, most)
            rest = [chain for chain in chains if chain.blocks]
            if rest:
                self._chains[owner] = rest
        self.free -= count
        return count

    @staticmethod
    def _reuse_each(chains: list[Chain], most: int) -> int:
        """As `reuse` where blocks of one position lie in several chains: the block cached first is found."""
        holder: dict[int, Chain] = {}
        for chain in chains:
            for position in chain.left():
                holder.setdefault(position, chain)
        count = 0
        while count < most and count in holder:
            count += 1
        for chain in chains:
            chain.positions = [p for p in chain.left() if p >= count or holder[p] is not chain]
            chain.blocks = len(chain.positions)
        return count


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
