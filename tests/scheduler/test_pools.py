"""The GPU's and the host's blocks by hand: what is taken first, what can still be found."""

import random

import pytest

from kvmodel.scheduler.pools import BlockPool, HostPool


def test_free_blocks_are_taken_before_cached_ones_and_tails_before_heads():
    """10 blocks: A leaves 4 cached, B 3; 5 were never used. The sixth taken is A's last, the tenth B's last."""
    pool = BlockPool(12)
    pool.take(7)
    pool.release(0, 4, 4, returns=True)
    pool.release(1, 3, 3, returns=True)
    assert pool.free == 12
    pool.take(6)
    assert (pool.cached(0), pool.cached(1)) == (3, 3)
    pool.take(4)
    assert (pool.cached(0), pool.cached(1)) == (0, 2)
    assert pool.free == 2


def test_a_partial_block_is_taken_first():
    """5 held, of them 4 full: the part-filled one goes to the front."""
    pool = BlockPool(5)
    pool.take(5)
    pool.release(0, 5, 4, returns=True)
    pool.take(1)
    assert pool.cached(0) == 4


def test_who_comes_back_takes_its_prefix_out_of_the_queue():
    pool = BlockPool(6)
    pool.take(6)
    pool.release(0, 3, 3, returns=True)
    pool.release(1, 3, 3, returns=True)
    assert pool.reuse(0, most=8) == 3
    assert pool.free == 3
    pool.take(1)
    assert pool.cached(1) == 2
    assert pool.reuse(0, most=8) == 0


def test_what_a_request_may_not_use_stays_in_the_queue_and_can_be_found_later():
    """A victim with 3 full blocks of its 3 x 16 tokens may use 2: the last token has to be computed again."""
    pool = BlockPool(8)
    pool.take(3)
    pool.release(0, 3, 3, returns=True)
    assert pool.reuse(0, most=2) == 2
    assert pool.free == 6  # the third block is free, and still cached
    pool.take(2)
    pool.release(0, 4, 4, returns=True)  # its four blocks, of them a second copy of the third
    assert pool.reuse(0, most=4) == 4
    assert pool.free == 4


def test_of_two_copies_the_one_cached_first_is_used():
    """The second copy stays where its chain stands in the queue: after what was freed between."""
    pool = BlockPool(8)
    pool.take(3)
    pool.release(0, 3, 3, returns=True)
    pool.reuse(0, most=2)
    pool.take(2)  # of the five that were never used
    pool.release(0, 4, 4, returns=True)
    pool.reuse(0, most=3)
    assert pool.cached(0) == 0  # its first three are in use
    assert pool.free == 5


def test_of_a_finished_request_nothing_is_found():
    pool = BlockPool(4)
    pool.take(3)
    pool.release(0, 3, 3, returns=False)
    assert pool.cached(0) == pool.reuse(0, most=3) == 0
    pool.take(4)
    assert pool.free == 0


def test_swap_space_keeps_all_or_nothing():
    host = HostPool(5)
    assert host.keep(0, 3)
    assert not host.keep(1, 3)
    assert host.drop(0) == 3
    assert host.keep(1, 5)
    assert host.free == 0


def test_a_host_tier_forgets_what_was_used_least_recently_tail_first():
    host = HostPool(6)
    assert host.store(0, 3) == 3
    assert host.store(1, 3) == 3
    assert host.find(0) == 3  # a use: 1 is now the oldest
    assert host.store(2, 2) == 2
    assert (host.find(0), host.find(1), host.find(2)) == (3, 1, 2)
    assert host.free == 0


def test_a_host_tier_stores_only_what_is_new():
    host = HostPool(6)
    host.store(0, 2)
    assert host.store(0, 5) == 3
    assert host.store(0, 4) == 0
    assert host.find(0) == 5


@pytest.mark.parametrize("blocks", [0, 2])
def test_a_host_tier_never_holds_more_than_it_has(blocks):
    host = HostPool(blocks)
    assert host.store(0, 5) == blocks
    assert host.store(1, 5) == blocks
    assert host.free == 0


class PlainPool:
    """Every free block on its own, next to be taken first: None, or its owner and position."""

    def __init__(self, blocks):
        self.queue = [None] * blocks

    def take(self, blocks):
        del self.queue[:blocks]

    def release(self, owner, blocks, cached_blocks, *, returns):
        self.queue = [None] * (blocks - cached_blocks) + self.queue
        if not returns:
            self.queue = ["nobody's" if block is not None and block[0] == owner else block for block in self.queue]
        tail_first = reversed(range(cached_blocks))
        self.queue += [(owner, position) if returns else "nobody's" for position in tail_first]

    def cached(self, owner):
        return next(position for position in range(len(self.queue) + 1) if (owner, position) not in self.queue)

    def reuse(self, owner, most):
        count = min(self.cached(owner), most)
        for position in range(count):
            self.queue.remove((owner, position))
        return count


@pytest.mark.parametrize("seed", range(40))
def test_counts_of_chains_are_those_of_single_blocks(seed):
    choose = random.Random(seed)
    pool, plain = BlockPool(20), PlainPool(20)
    held = {}
    for _ in range(60):
        owner = choose.randrange(4)
        if owner in held:
            blocks, again = held.pop(owner), choose.random() < 0.8
            cached = choose.randint(0, blocks)
            for one in (pool, plain):
                one.release(owner, blocks, cached, returns=again)
        else:
            most = choose.randint(0, 8)
            found = pool.reuse(owner, most)
            assert found == plain.reuse(owner, most)
            more = choose.randint(0, min(6, pool.free))
            held[owner] = found + more
            for one in (pool, plain):
                one.take(more)
        assert pool.free == len(plain.queue)
        assert [pool.cached(each) for each in range(4)] == [plain.cached(each) for each in range(4)]
