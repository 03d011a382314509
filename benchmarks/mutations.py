"""Do the model's tests notice a wrong model? Each mutation is one slip, applied alone to a copy of the package.

    python -m benchmarks.mutations            # all; exit 1 if any survives or no longer applies
    python -m benchmarks.mutations tp ceil    # those whose name contains one of the words

Tests that fail on the package as it stands are left out of all runs, and named.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
WORKERS = 2
MODEL_TESTS = (
    "step_time", "kv_cache", "transfer", "capacity", "resolve", "figure19", "measurements", "recovery", "break_even",
    "verdict", "compare", "assumptions", "roofline", "units", "weights", "evidence", "calibration", "copy_path",
)  # fmt: skip
FIRST = {
    "costs": "recovery",
    "engine_time": "recovery",
}  # module -> whose tests to run first, where they are not called the same


@dataclass(frozen=True)
class Mutation:
    """`old`, found exactly once in kvmodel/`file`, becomes `new`."""

    name: str
    file: str
    old: str
    new: str


MUTATIONS = (
    # KV bytes and copies
    Mutation("K without V", "kv_cache.py", "(group.key_dim + group.value_dim)", "group.key_dim"),
    Mutation("MLA counted twice", "kv_cache.py", "(group.key_dim + group.value_dim)", "2 * group.key_dim"),
    Mutation("bits for bytes", "case.py", '"bf16": 2, "fp16": 2', '"bf16": 16, "fp16": 16'),
    Mutation("fp8 as wide as bf16", "case.py", '"fp8": 1', '"fp8": 2'),
    Mutation("KV ignores tp", "kv_cache.py", "group.kv_heads / tp", "group.kv_heads / 1"),
    Mutation("heads below one a GPU", "kv_cache.py", "np.maximum(1.0, group.kv_heads / tp)", "(group.kv_heads / tp)"),
    Mutation(
        "window ignored in whole blocks",
        "kv_cache.py",
        "return blocks(np.minimum(tokens, group.bound_tokens), block_tokens) * block_tokens",
        "return blocks(tokens, block_tokens) * block_tokens",
    ),
    Mutation(
        "window ignored in copies",
        "kv_cache.py",
        "in_blocks = blocks(np.minimum(tokens, group.bound_tokens), block_tokens)",
        "in_blocks = blocks(tokens, block_tokens)",
    ),
    Mutation("ceil becomes floor", "kv_cache.py", "np.ceil(tokens / block_tokens)", "np.floor(tokens / block_tokens)"),
    Mutation(
        "state forgotten",
        "kv_cache.py",
        "(held_tokens(group) * per_token + group.fixed_bytes / tp)",
        "held_tokens(group) * per_token",
    ),
    Mutation(
        "no block rounding of what moves",
        "costs.py",
        "block_tokens=inputs.block_tokens,\n        bytes_per_value",
        "block_tokens=1,\n        bytes_per_value",
    ),
    Mutation("L copies for 2 L", "kv_cache.py", "vectors = 2 if group.value_dim else 1", "vectors = 1"),
    Mutation("2 L copies for L", "kv_cache.py", '"per-layer": group.layers,', '"per-layer": 2 * group.layers,'),
    Mutation(
        "runs of a block forgotten",
        "kv_cache.py",
        "return total * runs_per_block",
        "return total * np.ones_like(runs_per_block)",
    ),
    # units
    Mutation(
        "GB is GiB",
        "units.py",
        "KB, MB, GB, TB = 10**3, 10**6, 10**9, 10**12",
        "KB, MB, GB, TB = 2**10, 2**20, 2**30, 2**40",
    ),
    Mutation("GiB is GB", "units.py", "KIB, MIB, GIB = 2**10, 2**20, 2**30", "KIB, MIB, GIB = 10**3, 10**6, 10**9"),
    Mutation("microseconds are milliseconds", "units.py", "US, MS = 1e-6, 1e-3", "US, MS = 1e-3, 1e-3"),
    Mutation("TFLOP is 2**40", "units.py", "TFLOP = 10**12", "TFLOP = 2**40"),
    # step time
    Mutation("a multiplication without its addition", "step_time.py", "tokens * (2.0 * active)", "tokens * active"),
    Mutation("head forgotten", "step_time.py", "+ sampled * (2.0 * head)", "+ 0 * sampled"),
    Mutation("head for every token", "step_time.py", "sampled * (2.0 * head)", "tokens * (2.0 * head)"),
    Mutation("attention not causal", "step_time.py", "pairs = new * (past + new / 2)", "pairs = new * (past + new)"),
    Mutation("past forgotten", "step_time.py", "pairs = new * (past + new / 2)", "pairs = new * (new / 2)"),
    Mutation(
        "window ignored in attention",
        "step_time.py",
        "seen = np.minimum(position, group.bound_tokens)",
        "seen = position",
    ),
    Mutation("chunks as windows", "step_time.py", "if group.chunked:", "if False:"),
    Mutation(
        "hard maximum",
        "step_time.py",
        "np.sqrt(computing_s * computing_s + reading_s * reading_s)",
        "np.maximum(computing_s, reading_s)",
    ),
    Mutation(
        "plain sum",
        "step_time.py",
        "np.sqrt(computing_s * computing_s + reading_s * reading_s)",
        "computing_s + reading_s",
    ),
    Mutation(
        "peak at 100 %",
        "step_time.py",
        "(tp * gpu.gemm_efficiency * gpu.peak_flop_per_s)",
        "(tp * gpu.peak_flop_per_s)",
    ),
    Mutation(
        "attention at the GEMM's efficiency",
        "step_time.py",
        "tp * gpu.attention_efficiency",
        "tp * gpu.gemm_efficiency",
    ),
    Mutation("all experts read", "step_time.py", "dense_bytes + distinct *", "dense_bytes + shape.experts *"),
    Mutation(
        "only a token's own experts read",
        "step_time.py",
        "dense_bytes + distinct *",
        "dense_bytes + shape.experts_per_token *",
    ),
    Mutation(
        "all experts compute",
        "step_time.py",
        "shape.experts_per_token * shape.expert_parameters",
        "shape.experts * shape.expert_parameters",
    ),
    Mutation("attention ignores tp", "step_time.py", "tp * gpu.attention_efficiency", "gpu.attention_efficiency"),
    Mutation(
        "weight read ignores tp",
        "step_time.py",
        "(tp * gpu.weight_read_efficiency",
        "(gpu.weight_read_efficiency",
    ),
    Mutation(
        "one all-reduce a layer",
        "step_time.py",
        "2 * shape.layers * (gpu.all_reduce_start_s",
        "shape.layers * (gpu.all_reduce_start_s",
    ),
    Mutation("no traffic", "step_time.py", "+ traffic_s(tokens, shape, gpu, tp=tp)", "+ 0"),
    Mutation("no launches", "step_time.py", "+ shape.layers * gpu.launch_s_per_layer", "+ 0"),
    Mutation(
        "one big chunk",
        "step_time.py",
        "full_chunks = np.floor(total / chunk_tokens)",
        "full_chunks = np.floor(total / 1e9)",
    ),
    Mutation("marginal is alone", "step_time.py", "mixed_s - decoding_s + slower_read_s", "mixed_s"),
    Mutation(
        "decodes read as fast beside a chunk",
        "step_time.py",
        "mixed_s - decoding_s + slower_read_s",
        "mixed_s - decoding_s",
    ),
    Mutation(
        "decodes leave the whole budget",
        "step_time.py",
        "np.maximum(max_num_batched_tokens - decodes, 1.0)",
        "np.maximum(max_num_batched_tokens, 1.0)",
    ),
    Mutation(
        "floor with efficiency",
        "step_time.py",
        "/ (tp * matrix_peak_flop_per_s(shape, gpu))",
        "/ (tp * gpu.gemm_efficiency * matrix_peak_flop_per_s(shape, gpu))",
    ),
    # transfers
    Mutation("rate alone", "transfer.py", "return copies * per_copy_s + ", "return 0 * copies * per_copy_s + "),
    Mutation("cliff above", "transfer.py", "size_bytes < copies * cliff_bytes", "size_bytes > copies * cliff_bytes"),
    Mutation("staging for nothing", "transfer.py", "+ 1 / staging_bytes_per_s)", "+ 0 / staging_bytes_per_s)"),
    Mutation("a kernel takes nothing", "copy_path.py", 'if method == "kernel" else 0.0', 'if method == "" else 0.0'),
    Mutation("a load has its token", "costs.py", "+ inputs.next_token_s * (tokens > 0)", "+ 0.0 * (tokens > 0)"),
    Mutation(
        "H2D for D2H",
        "copy_path.py",
        "rate = link.h2d_bytes_per_s if direction ==",
        "rate = link.h2d_bytes_per_s if direction !=",
    ),
    Mutation(
        "cost of a copy H2D for D2H",
        "copy_path.py",
        "return link.per_copy_h2d_s if direction ==",
        "return link.per_copy_h2d_s if direction !=",
    ),
    Mutation(
        "out at the rate of in",
        "costs.py",
        "shared_rate_bytes_per_s(inputs.d2h_bytes_per_s",
        "shared_rate_bytes_per_s(inputs.h2d_bytes_per_s",
    ),
    # memory
    Mutation(
        "weights ignore tp",
        "capacity.py",
        "weights.weight_bytes(model) / (tp * pp)",
        "weights.weight_bytes(model) / pp",
    ),
    Mutation(
        "activations as large as weights are wide",
        "capacity.py",
        "return np.asarray(batched_tokens * values * ACTIVATION_BYTES)",
        "return np.asarray(batched_tokens * values)",
    ),
    Mutation(
        "last preemption may exceed the pool",
        "resolve.py",
        "case.tokens + (case.preemptions - 1) * case.tokens_between",
        "case.tokens",
    ),
    # prices
    Mutation(
        "engine factor dropped",
        "engine_time.py",
        "np.maximum(engine.engine_factor * kernels_s, steps * engine.host_step_s)",
        "np.maximum(kernels_s, steps * engine.host_step_s)",
    ),
    Mutation(
        "request overhead dropped",
        "engine_time.py",
        "return launched_s + engine.request_overhead_s",
        "return launched_s",
    ),
    Mutation(
        "load overhead dropped",
        "costs.py",
        "(copy_in_s(inputs, tokens) + inputs.load_overhead_s)",
        "copy_in_s(inputs, tokens)",
    ),
    Mutation(
        "survival ignored in recompute",
        "recovery.py",
        "past = inputs.survival * context\n        new = context - past",
        "past = 0 * context\n        new = context - past",
    ),
    Mutation("survival ignored in offload", "recovery.py", "kept = inputs.survival * context", "kept = 0 * context"),
    Mutation(
        "context does not grow",
        "recovery.py",
        "inputs.tokens + index * inputs.tokens_between)",
        "inputs.tokens + 0 * index * inputs.tokens_between)",
    ),
    Mutation(
        "offload waits for its write",
        "recovery.py",
        "_Resume(loading_s + costs.prefill_alone_s(inputs, new, past), ",
        "_Resume(loading_s + costs.out_s(inputs, load) + costs.prefill_alone_s(inputs, new, past), ",
    ),
    Mutation(
        "offload writes at every preemption",
        "recovery.py",
        "    writing = costs.out_s(inputs, stored_last)",
        "    writing = inputs.preemptions * costs.out_s(inputs, stored_last)",
    ),
    Mutation("offload of the prompt keeps all", "recovery.py", "if not inputs.offload_prompt_only:", "if True:"),
    Mutation(
        "swap keeps its host copy",
        "recovery.py",
        "out = out + preempted * costs.out_s(inputs, context)",
        "out = np.maximum(out, preempted * costs.out_s(inputs, context))",
    ),
    Mutation(
        "V0's copies take nobody's time",
        "recovery.py",
        "gpu_s=delay if inputs.swap_on_compute_stream else kernel",
        "gpu_s=kernel",
    ),
    Mutation(
        "both adds up",
        "recovery.py",
        "slower_s = np.maximum(computing_s, loading_s)",
        "slower_s = computing_s + loading_s",
    ),
    Mutation(
        "wait without the remaining output",
        "costs.py",
        "np.multiply(tokens, inputs.remaining_output)",
        "np.asarray(tokens)",
    ),
    Mutation(
        "queue releases contexts alone",
        "costs.py",
        "inputs.decode_context + inputs.remaining_output)",
        "inputs.decode_context)",
    ),
    Mutation(
        "the host's part of a step",
        "engine_time.py",
        "return launched_s + engine.decode_overhead_s + sequences * engine.decode_overhead_s_per_sequence",
        "return launched_s",
    ),
    Mutation(
        "a host that waits for its kernels",
        "engine_time.py",
        "np.maximum(engine.engine_factor * kernels_s, engine.host_step_s)",
        "(engine.engine_factor * kernels_s + engine.host_step_s)",
    ),
    Mutation("large messages as fast as small", "step_time.py", "gpu.all_reduce_large_share, 1.0)", "1.0, 1.0)"),
    Mutation("four GPUs as two", "step_time.py", "gpu.all_reduce_beyond_pair_share, 1.0)", "1.0, 1.0)"),
    Mutation("8-bit weights at the 16-bit peak", "step_time.py", "return most == 1\n", "return False\n"),
    Mutation(
        "older kernels as today's", "evidence.py", "older * np.asarray(gpu.gemm_efficiency)", "gpu.gemm_efficiency"
    ),
    Mutation("nothing is impossible", "calibration.py", "each.seconds < floor_s", "each.seconds < 0"),
    Mutation("link bytes of one GPU", "recovery.py", "link_bytes=size * inputs.tp", "link_bytes=size"),
    Mutation(
        "low above likely",
        "recovery.py",
        "self.victim_delay_s * (1 - self.band)",
        "self.victim_delay_s * (1 + self.band / 2)",
    ),
    # break-evens and verdict
    Mutation(
        "break-even of one direction",
        "break_even.py",
        "return 2 * costs.moved_bytes(inputs, inputs.tokens) / recompute_s(inputs)",
        "return costs.moved_bytes(inputs, inputs.tokens) / recompute_s(inputs)",
    ),
    Mutation(
        "break-even without survival",
        "break_even.py",
        "past = np.multiply(inputs.survival, inputs.tokens)",
        "past = 0 * np.multiply(inputs.survival, inputs.tokens)",
    ),
    Mutation(
        "bytes per copy in one direction",
        "break_even.py",
        "np.add(inputs.per_copy_d2h_s, inputs.per_copy_h2d_s)",
        "np.asarray(inputs.per_copy_h2d_s)",
    ),
    Mutation("preemptions one too few", "break_even.py", "int(cheaper[0]) + 1 if", "int(cheaper[0]) if"),
    Mutation("the dearest wins", "verdict.py", "(cost(name), float(", "(-cost(name), float("),
    Mutation(
        "factor upside down", "verdict.py", "cost(runner_up) / cost(winner) if", "cost(winner) / cost(runner_up) if"
    ),
    Mutation(
        "objective ignored",
        "verdict.py",
        'price.gpu_s if inputs.objective == "gpu-time"',
        'price.gpu_s if inputs.objective == "nothing"',
    ),
    Mutation("policy ignored", "verdict.py", "for name in inputs.available if", "for name in prices if"),
    Mutation(
        "never close",
        "verdict.py",
        "return Contest(winner, runner_up, cost(runner_up) / cost(winner) if cost(winner) > 0 else None, close)",
        "return Contest(winner, runner_up, cost(runner_up) / cost(winner) if cost(winner) > 0 else None, False)",
    ),
    # figure 19
    Mutation(
        "figure 19 unscaled",
        "figure19.py",
        'measured_s * assumptions.value("figure19", "plotted_factor")',
        "measured_s * 1.0",
    ),
    Mutation("figure 19 out alone", "figure19.py", "return out_s + in_s", "return 2 * in_s"),
)


def pytest_here(folder: Path, *options: str, first: str = "") -> subprocess.CompletedProcess[str]:
    """All model tests, those of the module `first` at the start: they kill most slips at once."""
    names = sorted(MODEL_TESTS, key=lambda name: name != first)
    tests = [f"tests/test_{name}.py" for name in names if (folder / "tests" / f"test_{name}.py").exists()]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=no", *options, *tests]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def copied(source: Path, target: Path) -> Path:
    shutil.copytree(source / "kvmodel", target / "kvmodel", ignore=shutil.ignore_patterns("__pycache__"))
    (target / "tests").mkdir()
    for test in (source / "tests").glob("*.py"):
        shutil.copy(test, target / "tests")
    shutil.copy(source / "pyproject.toml", target)
    return target


def outcome(mutation: Mutation, pristine: Path, left_out: list[str]) -> str:
    """ "killed by ...", "survived", or "stale" where the text to change is not there exactly once."""
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(pristine, Path(folder))
        path = copy / "kvmodel" / mutation.file
        text = path.read_text(encoding="utf-8")
        if text.count(mutation.old) != 1:
            return f"stale: {mutation.old!r} is {text.count(mutation.old)} times in {mutation.file}"
        path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
        first = FIRST.get(path.stem, path.stem)
        done = pytest_here(copy, "-x", *(f"--deselect={test}" for test in left_out), first=first)
        killer = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, flags=re.MULTILINE)
        return f"killed by {killer.group(1) if killer else 'an error'}" if done.returncode else "survived"


def main(words: list[str]) -> int:
    chosen = [one for one in MUTATIONS if not words or any(word.lower() in one.name.lower() for word in words)]
    with tempfile.TemporaryDirectory() as folder:
        pristine = copied(ROOT, Path(folder))
        baseline = pytest_here(pristine)
        left_out = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", baseline.stdout, flags=re.MULTILINE)
        for test in left_out:
            print(f"left out, fails without a mutation: {test}")
        if baseline.returncode not in (0, 1):  # 1: some tests fail
            print(baseline.stdout[-2000:], baseline.stderr[-2000:])
            return 1
        bad = 0
        with ThreadPoolExecutor(WORKERS) as pool:
            outcomes = pool.map(lambda one: outcome(one, pristine, left_out), chosen)
            for mutation, what in zip(chosen, outcomes, strict=True):
                bad += not what.startswith("killed")
                print(f"{mutation.name:45} {what}", flush=True)
    print(f"{len(chosen) - bad} of {len(chosen)} killed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
