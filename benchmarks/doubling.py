"""Time and memory of every parser for inputs of the worst shapes that are known, each twice as large as the one before.

    python -m benchmarks.doubling                # all shapes up to their limit; exit 1 if one is out of bounds
    python -m benchmarks.doubling labels table   # those whose name has one of these words

Each input is read in a process of its own: CPU seconds, and how far its memory rose above what there was before.
"""

import gzip
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.entrances import ENTRANCES
from kvmodel.cli import simulate_file
from kvmodel.errors import CaseError
from kvmodel.hf import config_file
from kvmodel.metrics import exposition
from kvmodel.units import KIB, MIB

SMALLEST_BYTES, BELOW_LIMIT, MOST_BYTES = 48 * KIB, 0.95, 200_000_000
MOST_RATIO, NOISE_S = 3.0, 0.25  # times of less are those of what is done once
LLAMA = {
    "model_type": "llama", "num_hidden_layers": 500, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 128256, "intermediate_size": 14336,
}  # fmt: skip
RUN = {"block_size": 16, "num_blocks": 1000, "max_num_seqs": 100, "max_num_batched_tokens": 2048}
REQUEST = {"prompt_tokens": 100, "output_tokens": 1, "arrival_step": 1}
STEP = "id,kind,source,gpu,model,dtype,engine,tp,batch,tokens,context,value,unit\n"
MEASURED = "R1,prefill,mine,h100-sxm5-80gb,llama-3.1-8b,bf16,vllm,1,1,4096,0,200,ms\n"
LOG_LIMIT = 8 * MIB  # of what a page or the command line takes of one; less of it is read


@dataclass(frozen=True)
class Shape:
    """`make` gives a text of about so many bytes for the entrance of a `kind`, which takes up to `limit_bytes`."""

    kind: str
    make: Callable[[int], str | bytes]
    limit_bytes: int = exposition.LONGEST_TEXT

    def input(self, size_bytes: int) -> bytes:
        made = self.make(size_bytes)
        return made.encode() if isinstance(made, str) else made


def repeated(piece: str, head: str = "", tail: str = "") -> Callable[[int], str]:
    return lambda size_bytes: head + piece * ((size_bytes - len(head)) // len(piece.encode())) + tail


def numbered(piece: str, head: str = "", tail: str = "") -> Callable[[int], str]:
    """The same with a number in each piece, which takes six digits."""
    return lambda size_bytes: (
        head + "".join(piece % (100_000 + number) for number in range(size_bytes // len(piece % 100_000))) + tail
    )


def config_of(**more: object) -> Callable[[int], str]:
    """A config.json with a key whose pieces are repeated: `more` has one, an example of a piece."""
    ((key, piece),) = more.items()

    def make(size_bytes: int) -> str:
        count = size_bytes // (len(json.dumps(piece)) + (12 if isinstance(piece, dict) else 2))
        value = (
            {str(100_000 + number): piece for number in range(count)} if isinstance(piece, dict) else [piece] * count
        )
        return json.dumps(LLAMA | {key: value})

    return make


def simulation(size_bytes: int) -> str:
    row = json.dumps(REQUEST)
    return f'{{"config": {json.dumps(RUN)}, "requests": [{",".join([row] * (size_bytes // len(row)))}]}}'


DECODE = (
    "(APIServer pid=1) INFO 06-01 12:00:00 [loggers.py:127] Engine %03d: Avg prompt throughput: 1.0 tokens/s, "
    "Avg generation throughput: 1.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%%, "
    "Prefix cache hit rate: 0.0%%\n"
)
DP = "(EngineCore_DP%d pid=1) INFO 06-01 12:00:00 [x.py:1] Available KV cache memory: 1.00 GiB\n"
BLANKS = " " * 200
CONFIG_LIMIT, RUN_LIMIT = config_file.LARGEST_FILE_BYTES, simulate_file.LARGEST_BYTES
SHAPES = {
    "scrape: labels of one series": Shape("scrape", numbered('a%d="b",', "vllm:num_requests_running{", "} 1\n")),
    "scrape: label sets": Shape("scrape", numbered('vllm:num_requests_running{engine="%d"} 1\n')),
    "scrape: buckets": Shape("scrape", numbered('vllm:time_to_first_token_seconds_bucket{le="%d"} 1\n')),
    "scrape: names": Shape("scrape", numbered("a%d 1\n")),
    "scrape: broken lines": Shape("scrape", repeated("x{\n")),
    "scrape: open quotes": Shape("scrape", repeated('vllm:x{a="\\"\n')),
    "scrape: one line": Shape("scrape", repeated("KV Cache is allocated. ")),
    "scrape: blanks": Shape("scrape", repeated(" ")),
    "scrape: comments": Shape("scrape", numbered("# HELP vllm:a%d x\n")),
    "scrape: gzip members": Shape("scrape", lambda size: gzip.compress(b"", mtime=0) * (size // 20)),
    "scrape: gzip of zeros": Shape("scrape", lambda size: gzip.compress(b"0" * size * 20, mtime=0), 400 * KIB),
    "trt json: objects": Shape("trt json", repeated('{"numActiveRequests":1},', "[", "{}]")),
    "trt json: ranks": Shape("trt json", numbered('{"numActiveRequests":1,"attentionDpRank":%d},', "[", "{}]")),
    "trt json: braces": Shape("trt json", repeated("{", '[{"numActiveRequests":1},')),
    "trt json: one object": Shape("trt json", numbered('"a%d":1,', '[{"numActiveRequests":1,', '"b":1}]')),
    "trt json: depth": Shape("trt json", repeated('{"a":', '[{"numActiveRequests":')),
    "running: engines": Shape("running", lambda size: "".join(DECODE % (at % 64) for at in range(size // len(DECODE)))),
    "running: a line": Shape("running", repeated("Engine 000: Avg prompt throughput: ", "INFO 06-01 12:00:00 ")),
    "start-up: a phrase": Shape("start-up", repeated("KV Cache is allocated. "), LOG_LIMIT),
    "start-up: memory": Shape("start-up", repeated("Available KV cache memory: 1.00 GiB\n"), LOG_LIMIT),
    "start-up: blanks": Shape("start-up", repeated(f"GPU KV cache size:{BLANKS}"), LOG_LIMIT),
    "start-up: numbers": Shape("start-up", repeated("1,", "max seq len ("), LOG_LIMIT),
    "start-up: engines": Shape("start-up", lambda size: "".join(DP % (at % 64) for at in range(size // 87)), LOG_LIMIT),
    "start-up: escapes": Shape("start-up", repeated("\x1b[0;"), LOG_LIMIT),
    "start-up: quotes": Shape("start-up", repeated("speculative_config={'"), LOG_LIMIT),
    "config: per layer": Shape("config", config_of(per_layer_config={}), CONFIG_LIMIT),
    "config: layer types": Shape("config", config_of(layer_types="full_attention"), CONFIG_LIMIT),
    "config: left out": Shape("config", config_of(modules_to_not_convert="model.layers.0.mlp"), CONFIG_LIMIT),
    "config: blocks": Shape("config", config_of(block_configs=[{"attention": {}}]), CONFIG_LIMIT),
    "config: names twice": Shape("config", numbered('"k%d":1,', "{", '"k100000":1}'), CONFIG_LIMIT),
    "config: depth": Shape("config", repeated('{"text_config":'), CONFIG_LIMIT),
    "config: a number": Shape("config", repeated("9", '{"hidden_size":', "}"), CONFIG_LIMIT),
    "simulate: names twice": Shape("simulate", numbered('"k%d":1,', '{"config":{', '"k100000":1}}'), RUN_LIMIT),
    "simulate: requests": Shape("simulate", simulation, RUN_LIMIT),
    "simulate: lists": Shape("simulate", repeated("[],", '{"requests":[', "[]]}"), RUN_LIMIT),
    "trace: rows": Shape("trace", repeated("1,1,1\n", "arrival_s,prompt_tokens,output_tokens\n"), 16 * MIB),
    "trace: columns": Shape("trace", repeated(","), 16 * MIB),
    "trace: one cell": Shape("trace", repeated('\n"",', '"'), 16 * MIB),
    "table of sizes": Shape("rows", repeated("4096\n", "tokens\n"), MIB),
    "table of comparisons": Shape("rows", repeated("4096,gpu-time\n", "tokens,objective\n"), MIB),
    "table of models": Shape("rows", numbered("custom~m%d~l1_d8_h1_g1_w8_full1x1x8x8,1\n", "model,tokens\n"), MIB),
    "measured: rows": Shape("measured", repeated(MEASURED, STEP), 4 * MIB),
    "link: keys": Shape("link", numbered("a%d=1&"), MIB),
    "link: a model": Shape("link", repeated("_full1x1x8x8", "model=custom~m~l1_d8_h1_g1_w8"), MIB),
    "link: percent signs": Shape("link", repeated("%25", "model="), MIB),
}  # fmt: skip


def read(shape: Shape, content: bytes) -> str:
    """What is told of a text, or why nothing is."""
    try:
        return ENTRANCES[shape.kind](content)
    except CaseError as refusal:
        return f"refused: {refusal}"


def measured(shape: Shape, content: bytes) -> tuple[float, int, str]:
    """CPU seconds, bytes of memory and the start of the answer, of a process that reads nothing else."""
    receiver, sender = os.pipe()
    child = os.fork()
    if not child:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        started_s = time.process_time()
        try:
            said = read(shape, content)
        except BaseException as error:
            said = f"crash: {error!r}"
        taken_s = time.process_time() - started_s
        rise_bytes = KIB * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        os.write(sender, json.dumps([taken_s, rise_bytes, said[:100]]).encode())
        os._exit(0)
    os.close(sender)
    with open(receiver, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    taken_s, rise_bytes, said = json.loads(answer or b'[0, 0, "crash: the process died"]')
    return taken_s, rise_bytes, said


def series(name: str, shape: Shape) -> bool:
    """The lines of a shape. Whether all of them are within bounds."""
    largest_bytes, former_s, good = int(BELOW_LIMIT * shape.limit_bytes), 0.0, True
    halvings = (largest_bytes // SMALLEST_BYTES).bit_length() - 1
    for halved in range(halvings, -1, -1):
        content = shape.input(largest_bytes >> halved)
        taken_s, rise_bytes, said = measured(shape, content)
        if former_s and taken_s > MOST_RATIO * former_s:  # once more: another process may have held the cache
            taken_s = min(taken_s, measured(shape, content)[0])
        ratio = taken_s / former_s if former_s else 0.0
        bad = rise_bytes > MOST_BYTES or "crash" in said or (ratio > MOST_RATIO and taken_s > NOISE_S)
        good, former_s = good and not bad, taken_s
        mark = "!" if bad else " "
        print(
            f"{mark} {name:<30} {len(content) / 1e3:9,.0f} KB {taken_s:8.3f} s {ratio:5.1f}x {rise_bytes / 1e6:7.1f} MB"
            f"  {' '.join(said.split())[:60]}", flush=True,
        )  # fmt: skip
    return good


def main() -> int:
    words = sys.argv[1:]
    for shape in SHAPES.values():
        read(shape, shape.input(200))  # what is read once only
    chosen = {name: shape for name, shape in SHAPES.items() if not words or any(word in name for word in words)}
    return min(1, sum(not series(name, shape) for name, shape in chosen.items()))  # each, whatever the first ones say


if __name__ == "__main__":
    sys.exit(main())
