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
    "timing", "memory", "catalog", "recovery", "evidence", "claims/test_figure19.py", "test_measurements.py",
    "test_units.py",
)  # fmt: skip


@dataclass(frozen=True)
class Mutation:
    """`old`, which stands exactly once in kvmodel, becomes `new`; where that is, is looked up, so code may move."""

    name: str
    old: str
    new: str


MUTATIONS = (
    # KV bytes and copies
    Mutation("K without V", "(group.key_dim + group.value_dim)", "group.key_dim"),
    Mutation("MLA counted twice", "(group.key_dim + group.value_dim)", "2 * group.key_dim"),
    Mutation("bits for bytes", "plain = self.bits // 8 if", "plain = self.bits if"),
    Mutation(
        "scales of a group forgotten",
        "return plain + self.group_scale_bytes / self.group if self.group else plain",
        "return plain",
    ),
    Mutation("KV ignores tp", "np.maximum(1.0, group.kv_heads / tp)", "np.maximum(1.0, group.kv_heads)"),
    Mutation("heads below one a GPU", "np.maximum(1.0, group.kv_heads / tp)", "(group.kv_heads / tp)"),
    Mutation(
        "window ignored in whole blocks",
        "return blocks(np.minimum(tokens, group.bound_tokens), block_tokens) * block_tokens",
        "return blocks(tokens, block_tokens) * block_tokens",
    ),
    Mutation(
        "window ignored in copies",
        "in_blocks = blocks(np.minimum(tokens, group.bound_tokens), block_tokens)",
        "in_blocks = blocks(tokens, block_tokens)",
    ),
    Mutation("ceil becomes floor", "np.ceil(tokens / block_tokens)", "np.floor(tokens / block_tokens)"),
    Mutation(
        "state forgotten",
        "(held_tokens(group) * per_token + group.fixed_bytes / tp)",
        "held_tokens(group) * per_token",
    ),
    Mutation(
        "no block rounding of what moves",
        "block_tokens=inputs.block_tokens,\n        bytes_per_value",
        "block_tokens=1,\n        bytes_per_value",
    ),
    Mutation("L copies for 2 L", "vectors = 2 if group.value_dim else 1", "vectors = 1"),
    Mutation("2 L copies for L", '"per-layer": group.layers,', '"per-layer": 2 * group.layers,'),
    Mutation(
        "runs of a block forgotten",
        "return total * runs_per_block",
        "return total * np.ones_like(runs_per_block)",
    ),
    # units
    Mutation(
        "GB is GiB",
        "KB, MB, GB, TB = 10**3, 10**6, 10**9, 10**12",
        "KB, MB, GB, TB = 2**10, 2**20, 2**30, 2**40",
    ),
    Mutation("GiB is GB", "KIB, MIB, GIB = 2**10, 2**20, 2**30", "KIB, MIB, GIB = 10**3, 10**6, 10**9"),
    Mutation("microseconds are milliseconds", "US, MS = 1e-6, 1e-3", "US, MS = 1e-3, 1e-3"),
    Mutation("TFLOP is 2**40", "TFLOP = 10**12", "TFLOP = 2**40"),
    # step time
    Mutation("a multiplication without its addition", "tokens * (2.0 * active)", "tokens * active"),
    Mutation("head forgotten", "+ sampled * (2.0 * head)", "+ 0 * sampled"),
    Mutation("head for every token", "sampled * (2.0 * head)", "tokens * (2.0 * head)"),
    Mutation("attention not causal", "pairs = new * (past + new / 2)", "pairs = new * (past + new)"),
    Mutation("past forgotten", "pairs = new * (past + new / 2)", "pairs = new * (new / 2)"),
    Mutation(
        "window ignored in attention",
        "span = np.minimum(position, group.bound_tokens)",
        "span = position",
    ),
    Mutation("chunks as windows", "if group.chunked:", "if False:"),
    Mutation(
        "hard maximum",
        "np.sqrt(computing_s * computing_s + reading_s * reading_s)",
        "np.maximum(computing_s, reading_s)",
    ),
    Mutation(
        "plain sum",
        "np.sqrt(computing_s * computing_s + reading_s * reading_s)",
        "computing_s + reading_s",
    ),
    Mutation(
        "peak at 100 %",
        "(tp * gpu.gemm_efficiency * gpu.peak_flop_per_s)",
        "(tp * gpu.peak_flop_per_s)",
    ),
    Mutation(
        "attention at the GEMM's efficiency",
        "tp * gpu.attention_efficiency",
        "tp * gpu.gemm_efficiency",
    ),
    Mutation("all experts read", "dense_bytes + distinct *", "dense_bytes + shape.experts *"),
    Mutation(
        "only a token's own experts read",
        "dense_bytes + distinct *",
        "dense_bytes + shape.experts_per_token *",
    ),
    Mutation(
        "all experts compute",
        "shape.experts_per_token * shape.expert_parameters",
        "shape.experts * shape.expert_parameters",
    ),
    Mutation("attention ignores tp", "tp * gpu.attention_efficiency", "gpu.attention_efficiency"),
    Mutation(
        "weight read ignores tp",
        "(tp * gpu.weight_read_efficiency",
        "(gpu.weight_read_efficiency",
    ),
    Mutation(
        "one all-reduce a layer",
        "2 * shape.layers * (gpu.all_reduce_start_s",
        "shape.layers * (gpu.all_reduce_start_s",
    ),
    Mutation("no traffic", "+ traffic_s(tokens, shape, gpu, tp=tp)", "+ 0"),
    Mutation("no launches", "\n        + shape.layers * gpu.launch_s_per_layer", ""),
    Mutation(
        "one big chunk",
        "full_chunks = np.floor(tokens / chunk_tokens)",
        "full_chunks = np.floor(tokens / 1e9)",
    ),
    Mutation("marginal is alone", "mixed_s - decoding_s + slower_read_s", "mixed_s"),
    Mutation(
        "decodes read as fast beside a chunk",
        "mixed_s - decoding_s + slower_read_s",
        "mixed_s - decoding_s",
    ),
    Mutation(
        "decodes leave the whole budget",
        "np.maximum(max_num_batched_tokens - decodes, 1.0)",
        "np.maximum(max_num_batched_tokens, 1.0)",
    ),
    Mutation(
        "floor with efficiency",
        "/ (tp * matrix_peak_flop_per_s(shape, gpu))",
        "/ (tp * gpu.gemm_efficiency * matrix_peak_flop_per_s(shape, gpu))",
    ),
    # transfers
    Mutation("rate alone", "return copies * per_copy_s + ", "return 0 * copies * per_copy_s + "),
    Mutation("cliff above", "size_bytes < copies * cliff_bytes", "size_bytes > copies * cliff_bytes"),
    Mutation("staging for nothing", "+ 1 / staging_bytes_per_s)", "+ 0 / staging_bytes_per_s)"),
    Mutation("a kernel takes nothing", 'if method == "kernel" else 0.0', 'if method == "" else 0.0'),
    Mutation("a load has its token", "loading_s + inputs.next_token_s * (tokens > 0)", "loading_s"),
    Mutation(
        "H2D for D2H",
        "rate = link.h2d_bytes_per_s if direction ==",
        "rate = link.h2d_bytes_per_s if direction !=",
    ),
    Mutation(
        "cost of a copy H2D for D2H",
        "return link.per_copy_h2d_s if direction ==",
        "return link.per_copy_h2d_s if direction !=",
    ),
    Mutation(
        "out at the rate of in",
        'transfer.transfer(inputs, "d2h", copies',
        'transfer.transfer(inputs, "h2d", copies',
    ),
    Mutation(
        "each GPU has the host to itself",
        "return np.minimum(link_bytes_per_s, together / tp)",
        "return link_bytes_per_s",
    ),
    # memory
    Mutation(
        "weights ignore tp",
        "weights.loaded_bytes(model, tp) / (tp * pp) if",
        "weights.loaded_bytes(model, tp) / pp if",
    ),
    Mutation(
        "activations as large as weights are wide",
        "return np.asarray(batched_tokens * values * ACTIVATION_BYTES)",
        "return np.asarray(batched_tokens * values)",
    ),
    Mutation(
        "last preemption may exceed the pool",
        "case.tokens + (case.preemptions - 1) * case.tokens_between",
        "case.tokens",
    ),
    # prices
    Mutation(
        "engine factor dropped",
        "larger(engine.engine_factor * kernels_s, steps * engine.host_step_s)",
        "larger(kernels_s, steps * engine.host_step_s)",
    ),
    Mutation(
        "request overhead dropped",
        "return launched_s(kernels_s, engine, steps) + engine.request_overhead_s",
        "return launched_s(kernels_s, engine, steps)",
    ),
    Mutation(
        "load overhead dropped",
        "(copy.seconds + inputs.load_overhead_s)",
        "copy.seconds",
    ),
    Mutation(
        "survival ignored in recompute",
        "past = inputs.survival * context\n        new = context - past",
        "past = 0 * context\n        new = context - past",
    ),
    Mutation("survival ignored in offload", "gpu_tokens = inputs.survival * context", "gpu_tokens = 0 * context"),
    Mutation(
        "context does not grow",
        "inputs.tokens + index * inputs.tokens_between)",
        "inputs.tokens + 0 * index * inputs.tokens_between)",
    ),
    Mutation(
        "offload waits for its write",
        "_Resume(loading_s + costs.prefill_alone_s(inputs, new, past), ",
        "_Resume(loading_s + costs.out_s(inputs, missing) + costs.prefill_alone_s(inputs, new, past), ",
    ),
    Mutation(
        "offload writes at every preemption",
        "link_s=back + write.seconds",
        "link_s=back + inputs.preemptions * write.seconds",
    ),
    Mutation("offload of the prompt keeps all", "if not inputs.offload_prompt_only:", "if True:"),
    Mutation(
        "swap keeps its host copy",
        "out = out + happens * copy.seconds",
        "out = np.maximum(out, happens * copy.seconds)",
    ),
    Mutation(
        "V0's copies take nobody's time",
        "gpu_s=delay if inputs.swap_on_compute_stream else kernel",
        "gpu_s=kernel",
    ),
    Mutation(
        "both adds up",
        "slower_s = np.maximum(computing_s, loading_s)",
        "slower_s = computing_s + loading_s",
    ),
    Mutation(
        "wait without the remaining output",
        "np.multiply(tokens, inputs.remaining_output)",
        "np.asarray(tokens)",
    ),
    Mutation(
        "queue releases contexts alone",
        "inputs.decode_context + inputs.remaining_output)",
        "inputs.decode_context)",
    ),
    Mutation(
        "the host's part of a step",
        "return launched_s(kernels_s, engine) + overhead_s",
        "return launched_s(kernels_s, engine)",
    ),
    Mutation(
        "a host that waits for its kernels",
        "return larger(engine.engine_factor * kernels_s, steps",
        "return (engine.engine_factor * kernels_s + steps",
    ),
    Mutation("large messages as fast as small", "gpu.all_reduce_large_share, 1.0)", "1.0, 1.0)"),
    Mutation("four GPUs as two", "gpu.all_reduce_beyond_pair_share, 1.0)", "1.0, 1.0)"),
    Mutation("8-bit weights at the 16-bit peak", "return most == 1\n", "return False\n"),
    Mutation("older kernels as today's", "older * np.asarray(gpu.gemm_efficiency)", "gpu.gemm_efficiency"),
    Mutation("nothing is impossible", "each.seconds < floor_s", "each.seconds < 0"),
    Mutation("link bytes of one GPU", "link_bytes=size * inputs.tp", "link_bytes=size"),
    Mutation(
        "low above likely",
        "self.victim_delay_s * (1 - self.band)",
        "self.victim_delay_s * (1 + self.band / 2)",
    ),
    # break-evens and verdict
    Mutation(
        "break-even of one direction",
        "return 2 * resolve.moved_bytes(inputs, inputs.tokens) / recompute_s(inputs)",
        "return resolve.moved_bytes(inputs, inputs.tokens) / recompute_s(inputs)",
    ),
    Mutation(
        "break-even without survival",
        "past = np.multiply(inputs.survival, inputs.tokens)",
        "past = 0 * np.multiply(inputs.survival, inputs.tokens)",
    ),
    Mutation(
        "bytes per copy in one direction",
        "np.add(inputs.per_copy_d2h_s, inputs.per_copy_h2d_s)",
        "np.asarray(inputs.per_copy_h2d_s)",
    ),
    Mutation("preemptions one too few", "int(cheaper[0]) + 1 if", "int(cheaper[0]) if"),
    Mutation("the dearest wins", "(cost(name), float(", "(-cost(name), float("),
    Mutation("factor upside down", "cost(runner_up) / cost(winner) if", "cost(winner) / cost(runner_up) if"),
    Mutation(
        "objective ignored",
        'price.gpu_s if inputs.objective == "gpu-time"',
        'price.gpu_s if inputs.objective == "nothing"',
    ),
    Mutation(
        "policy ignored", "acting = [name for name in inputs.available if", "acting = [name for name in prices if"
    ),
    Mutation(
        "never close",
        "return Contest(winner, runner_up, cost(runner_up) / cost(winner) if cost(winner) > 0 else None, close)",
        "return Contest(winner, runner_up, cost(runner_up) / cost(winner) if cost(winner) > 0 else None, False)",
    ),
    # figure 19
    Mutation(
        "figure 19 unscaled",
        'measured_s * assumptions.value("figure19", "plotted_factor")',
        "measured_s * 1.0",
    ),
    Mutation("figure 19 out alone", "return out_s + in_s", "return 2 * in_s"),
)


def place(mutation: Mutation, package: Path) -> Path | None:
    """The one file of the package in which the text to change stands, and stands once; None where that is not so."""
    places = [
        path for path in package.rglob("*.py") for _ in range(path.read_text(encoding="utf-8").count(mutation.old))
    ]
    return places[0] if len(places) == 1 else None


def pytest_here(folder: Path, *options: str, first: str = "") -> subprocess.CompletedProcess[str]:
    """All model tests, those of the package `first` at the start: they kill most slips at once."""
    tests = [f"tests/{name}" for name in sorted(MODEL_TESTS, key=lambda name: name.split("/")[0] != first)]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=no", *options, *tests]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def copied(source: Path, target: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("kvmodel", "fitting", *(f"tests/{name}" for name in (*MODEL_TESTS, "helpers", "data"))):
        copy = shutil.copytree if (source / name).is_dir() else shutil.copy
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        copy(source / name, target / name, **({"ignore": ignored} if copy is shutil.copytree else {}))
    shutil.copy(source / "pyproject.toml", target)
    return target


def outcome(mutation: Mutation, pristine: Path, left_out: list[str]) -> str:
    """ "killed by ...", "survived", or "stale" where the text to change is not there exactly once."""
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(pristine, Path(folder))
        path = place(mutation, copy / "kvmodel")
        if path is None:
            return f"stale: {mutation.old!r} does not stand exactly once"
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
        first = path.relative_to(copy / "kvmodel").parts[0]
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
