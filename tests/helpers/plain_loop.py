"""vLLM V1's scheduler one step and one block at a time: slow, and as close to the engine's own data as can be.

The model in `kvmodel` counts where this keeps every block, and skips steps where this walks them all.
"""

from collections import deque
from heapq import heappop, heappush
from itertools import count


class Pool:
    """Blocks in a queue of free ones; a full block keeps its (request, position) until somebody takes it."""

    def __init__(self, blocks):
        self.free = dict.fromkeys(range(blocks))  # an ordered set: next to be taken first
        self.front = deque()  # freed unhashed blocks, taken before the others
        self.hash_of = {}
        self.cached = {}  # hash -> blocks in the order they were cached

    def __len__(self):
        return len(self.front) + len(self.free)

    def take(self, number):
        return [self._take_one() for _ in range(number)]

    def _take_one(self):
        if self.front:
            return self.front.popleft()
        block = next(iter(self.free))
        del self.free[block]
        self._forget(block)
        return block

    def _forget(self, block):
        name = self.hash_of.pop(block, None)
        if name is not None:
            del self.cached[name][block]
            if not self.cached[name]:
                del self.cached[name]

    def name(self, block, name):
        if block not in self.hash_of:
            self.hash_of[block] = name
            self.cached.setdefault(name, {})[block] = None

    def find(self, name):
        return next(iter(self.cached.get(name, ())), None)

    def touch(self, block):
        del self.free[block]

    def release(self, blocks):
        for block in reversed(blocks):
            if block in self.hash_of:
                self.free[block] = None
            else:
                self.front.appendleft(block)


def run(config, requests):
    """The `result` of a file of `tests/data/oracle`, without its samples."""
    block, budget_all = config["block_size"], config["max_num_batched_tokens"]
    caching, by_rank = config["prefix_caching"], config["policy"] == "priority"
    reserved = int(config["watermark"] * (config["num_blocks"] + 1))
    pool = Pool(config["num_blocks"])
    number = len(requests)
    prompt = [r["prompt_tokens"] for r in requests]
    last = [r["prompt_tokens"] + r["output_tokens"] for r in requests]
    rank = [(r["priority"] if by_rank else 0, r["arrival_step"], i) for i, r in enumerate(requests)]
    arriving = deque(sorted(range(number), key=lambda i: (requests[i]["arrival_step"], i)))
    tokens, computed, held = list(prompt), [0] * number, [[] for _ in range(number)]
    running, queue, heap = [], deque(), []
    preempted_at, finish_step = {}, [None] * number
    preemptions, resumes, tokens_computed = [], [], 0
    finished_before = False

    def waiting():
        return len(heap) if by_rank else len(queue)

    def add(i):
        if by_rank:
            heappush(heap, rank[i])
        else:
            queue.append(i)

    def head():
        return heap[0][2] if by_rank else queue[0]

    def hash_full(i, upto):
        if caching:
            for position in range(upto // block):
                pool.name(held[i][position], (i, position))

    for step in count():
        while arriving and requests[arriving[0]]["arrival_step"] <= step:
            add(arriving.popleft())
        if not running and not waiting() and not finished_before:
            if not arriving:
                break
            if requests[arriving[0]]["arrival_step"] > step:
                continue
        budget, scheduled, gone = budget_all, {}, []

        def preempt(victim, step=step, gone=gone):
            running.remove(victim)
            pool.release(held[victim])
            held[victim] = []
            computed[victim] = 0
            preempted_at[victim] = step
            gone.append(victim)
            if by_rank:
                heappush(heap, rank[victim])
            else:
                queue.appendleft(victim)

        place = 0
        while place < len(running) and budget > 0:
            i = running[place]
            new = min(tokens[i] - computed[i], budget)
            need = -(-(computed[i] + new) // block) - len(held[i])
            while need > len(pool):
                victim = max(running, key=lambda j: rank[j]) if by_rank else running[-1]
                if victim in scheduled:
                    budget += scheduled.pop(victim)
                    place -= 1
                preempt(victim)
                if victim == i:
                    break
            if i in gone:
                if by_rank:
                    continue
                break
            held[i] += pool.take(need)
            hash_full(i, computed[i] + new)
            scheduled[i] = new
            budget -= new
            place += 1

        while not gone and budget > 0 and waiting() and len(running) < config["max_num_seqs"]:
            i = head()
            if -(-tokens[i] // block) + (reserved if running else 0) > len(pool):
                break
            if by_rank:
                heappop(heap)
            else:
                queue.popleft()
            hits = []
            while len(hits) < (tokens[i] - 1) // block and (found := pool.find((i, len(hits)))) is not None:
                hits.append(found)
            for found in hits:
                pool.touch(found)
            held[i] = hits
            computed[i] = len(hits) * block
            new = min(tokens[i] - computed[i], budget)
            held[i] += pool.take(-(-(computed[i] + new) // block) - len(hits))
            hash_full(i, computed[i] + new)
            if i in preempted_at:
                waited = step - preempted_at.pop(i)
                resumes.append([step, i, tokens[i], computed[i], waited])
            running.append(i)
            scheduled[i] = new
            budget -= new

        preemptions += [[step, i, tokens[i]] for i in sorted(gone, key=lambda i: (requests[i]["arrival_step"], i))]
        finished_before = False
        for i, new in scheduled.items():
            computed[i] += new
            tokens_computed += new
            if computed[i] >= tokens[i]:
                tokens[i] += 1
                if tokens[i] == last[i]:
                    finish_step[i] = step
                    finished_before = True
                    running.remove(i)
                    pool.release(held[i])
                    held[i] = []
        assert 0 <= len(pool) <= config["num_blocks"]
        last_step = step
    return {
        "last_step": last_step,
        "tokens_computed": tokens_computed,
        "preemption_events": len(preemptions),
        "distinct_preempted": len({i for _, i, _ in preemptions}),
        "preemptions": [dict(zip(("step", "request", "tokens"), e, strict=True)) for e in preemptions],
        "resumes": [
            dict(zip(("step", "request", "tokens", "cached_tokens", "waited_steps"), e, strict=True)) for e in resumes
        ],
        "finish_step": finish_step,
    }
