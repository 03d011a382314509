"""The command line's answers as text for people; each function takes the JSON answer of the command of its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kvmodel import catalog
from kvmodel.units import (
    NONE,
    format_bytes,
    format_count,
    format_gb,
    format_percent,
    format_rate,
    format_ratio,
    format_seconds,
    significant,
)

Answer = dict[str, Any]
FLIPS: dict[str, tuple[str, Callable[[float], str]]] = {
    "copy_bytes_per_s": ("copy rate", format_rate),
    "bytes_per_copy": ("size of a copy", lambda size: format_bytes(size, 2)),
    "context_tokens": ("context length [tokens]", format_count),
    "survival": ("share of the KV still in the GPU's prefix cache", format_percent),
}


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to their widest cell: the first to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines)


def name_value_lines(*rows: tuple[str, str]) -> str:
    """Names and values, both to the left."""
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def model_name(answer: Answer) -> str:
    return catalog.model(answer["model"]).name


def seconds(value: float | None) -> str:
    return NONE if value is None else format_seconds(value) if value else "0"


def memory(value: float) -> str:
    return f"{format_bytes(value)} ({format_count(value)} B)"


def size(answer: Answer) -> str:
    groups = [
        f"{group['layers']} {group['kind']} layers, {group['kv_heads']} x ({group['key_dim']} + {group['value_dim']})"
        + (f", up to {format_count(group['bound_tokens'])} tokens" if group["bound_tokens"] else "")
        + (f", {format_bytes(group['fixed_bytes'])} fixed" if group["fixed_bytes"] else "")
        for group in answer["fields_used"]["kv_layers"]
    ]
    heading = f"{model_name(answer)}, {format_count(answer['tokens'])} tokens, {answer['kv_dtype']} KV"
    return f"{heading}\n\n" + name_value_lines(
        ("KV of the request", memory(answer["kv_bytes"])),
        (f"on each GPU at tp {answer['tp']}", memory(answer["kv_bytes_per_gpu"])),
        (f"held, in blocks of {answer['block_tokens']}", memory(answer["kv_bytes_in_blocks"])),
        ("growth per token", memory(answer["growth_bytes_per_token"])),
        ("in layers that stop growing", memory(answer["fixed_bytes"])),
        ("without a hybrid KV manager", memory(answer["kv_bytes_hybrid_off"])),
        ("from", "; ".join(groups)),
        *config_lines(answer),
        *kv_notes(answer),
    )


def config_lines(answer: Answer) -> list[tuple[str, str]]:
    """What a config.json says beside the KV; nothing for a model of the catalog."""
    if "assumed" not in answer:
        return []
    lines = [("read from", answer["fields_used"]["section"])]
    if answer["parameters"] is not None:
        active = f", {format_count(answer['active_parameters'])} active" if moe(answer) else ""
        lines.append(("parameters", f"{format_count(answer['parameters'])}{active}"))
        lines.append(("weights", memory(answer["weight_bytes"])))
    defaults = ", ".join(f"{key} {value}" for key, value in answer["assumed"].items())
    lines.append(("assumed, as the class does", defaults or "nothing"))
    return lines + [("note", note) for note in answer["notes"]]


def kv_notes(answer: Answer) -> list[tuple[str, str]]:
    return [("note", note) for note in answer.get("kv_notes", ())]


def moe(answer: Answer) -> bool:
    return bool(answer["active_parameters"] != answer["parameters"])


def capacity(answer: Answer) -> str:
    heading = f"{model_name(answer)} on {answer['tp']} x {answer['gpu']}, {answer['kv_dtype']} KV"
    return f"{heading}\n\n" + name_value_lines(
        ("KV pool of each GPU", memory(answer["pool_bytes"])),
        ("predicted", f"{format_bytes(answer['pool_low_bytes'])} to {format_bytes(answer['pool_high_bytes'])}"),
        *may_not_start(answer),
        ("", f"{format_count(answer['pool_blocks'])} blocks, {format_count(answer['pool_tokens'])} tokens"),
        ("num_gpu_blocks of vLLM", "as many; one of them, the null block, is never given out"),
        (
            f"requests of {format_count(answer['max_model_len'])} tokens",
            f"{significant(answer['max_concurrency'], 3)} at a time",
        ),
        ("GPU memory", memory(answer["total_bytes"])),
        ("usable by the engine", memory(answer["usable_bytes"])),
        ("weights" + (", as loaded" if answer["weight_gib"] else ""), memory(answer["weight_bytes"])),
        ("activations", memory(answer["activation_bytes"])),
        ("engine", memory(answer["engine_bytes"])),
        *host_line(answer),
        *(
            (f"{engine} prints", f"{format_count(line['tokens'])} tokens, {line['concurrency']:.2f}x")
            for engine, line in answer["printed"].items()
        ),
        *(
            (f"with {row['lever']}", f"{memory_change(row['freed_bytes'])}, {significant(row['requests'], 3)} requests")
            for row in answer["levers"][1:]
        ),
        *kv_notes(answer),
    )


def may_not_start(answer: Answer) -> list[tuple[str, str]]:
    """A warning where the lowest pool that is predicted is none."""
    low = answer["pool_low_bytes"]
    return [("", f"it may not start: {format_bytes(-low)} short at the lowest")] if low < 0 else []


def host_line(answer: Answer) -> list[tuple[str, str]]:
    """What host memory keeps beside the pool; nothing where none is asked for."""
    if "host_pool_tokens" not in answer:
        return []
    requests = f"{significant(answer['host_requests'], 3)} requests of {format_count(answer['max_model_len'])}"
    return [("host pool", f"{format_count(answer['host_pool_tokens'])} tokens, {requests}")]


def memory_change(size_bytes: float) -> str:
    return f"{'frees' if size_bytes >= 0 else 'takes'} {format_bytes(abs(size_bytes))}"


def prefill(answer: Answer) -> str:
    past = f" after {format_count(answer['past'])}" if answer["past"] else ""
    batch = f" in each of {format_count(answer['batch'])} sequences" if answer["batch"] > 1 else ""
    server = f"{model_name(answer)} on {answer['tp']} x {answer['gpu']}"
    heading = f"{server}: {format_count(answer['tokens'])} tokens{past}{batch}"
    rows = [
        ("prefill", f"{seconds(answer['prefill_s'])}, from {seconds(answer['low_s'])} to {seconds(answer['high_s'])}"),
        ("floor", f"{seconds(answer['floor_s'])} at the datasheet's peaks"),
        ("bound by", answer["bound"]),
        ("MFU", format_percent(answer["mfu"])),
    ]
    if answer["kernel_parts"]:
        parts = (f"{name.removesuffix('_s')} {seconds(value)}" for name, value in answer["kernel_parts"].items())
        rows.append(("kernels", ", ".join(parts)))
    return f"{heading}, timing {answer['timing']}\n\n" + name_value_lines(*rows)


def copy(answer: Answer) -> str:
    copies = f"{format_count(answer['copies'])} x {format_bytes(answer['bytes_per_copy'])}"
    return f"{answer['link']}, {answer['direction'].upper()}: {copies}\n\n" + name_value_lines(
        ("copy", f"{seconds(answer['copy_s'])} for {format_gb(answer['total_bytes'])}"),
        (
            "effective rate",
            f"{format_rate(answer['effective_bytes_per_s'])} of {format_rate(answer['link_bytes_per_s'])}",
        ),
        ("bytes on the wire", seconds(answer["wire_s"])),
        ("fixed cost of a copy", seconds(answer["per_copy_s"])),
        ("method", answer["method"]),
        ("GPU time taken from others", seconds(answer["gpu_s"])),
        ("locking the host memory, once", seconds(answer["pin_s"])),
    )


def compare(answer: Answer) -> str:
    case, verdict = answer["case"], answer["verdict"]
    times = f", preempted {case['preemptions']} times" if case["preemptions"] > 1 else ""
    heading = (
        f"{model_name(case)} on {case['tp']} x {case['gpu']}, {case['link']}: "
        f"{format_count(case['tokens'])} tokens of {case['kv_dtype']} KV{times}\n"
        f"timing {case['timing']}, policy {case['policy']}"
    )
    rows = [["strategy", "victim delay", "low", "high", "out", "in", "GPU time", "link", "recomputed"]]
    for name, price in answer["strategies"].items():
        keys = ("victim_delay_s", "low_s", "high_s", "out_s", "in_s", "gpu_s")
        cells = [seconds(price[key]) for key in keys]
        amounts = format_gb(price["link_bytes"]), f"{format_count(price['recomputed_tokens'])} tokens"
        rows.append([name + ("" if price["available"] else " (not in this engine)"), *cells, *amounts])
    turns = [flip(entry) for entry in verdict["flips_if"]]
    lines = [
        *verdict_lines(answer, f" ({case['policy']}), by {verdict['objective']}"),
        "what would turn swap or recompute:" if turns else "nothing in range turns swap or recompute",
        *turns,
        pays_from(answer["break_even"]["preemptions"]),
        f"wait for free blocks, which every strategy but wait pays first: {seconds(answer['wait_for_blocks_s'])}",
    ]
    notes = [f"note: {note}" for note in answer["notes"]]
    return "\n\n".join(["\n".join(part) for part in ([heading], [table(rows)], lines, notes) if part])


def verdict_lines(answer: Answer, basis: str = "") -> list[str]:
    """What is best of what the engine has (`basis` says of which, by what), and swap against recompute."""
    verdict = answer["verdict"]
    better = "faster" if verdict["objective"] == "victim-delay" else "cheaper"
    no_swap = "" if answer["strategies"]["swap"]["available"] else ", if this engine had swap"
    return [
        f"of what this engine has{basis}: {contest(verdict, better)}",
        f"swap or recompute{no_swap}: {contest(verdict['swap_or_recompute'], better)}",
    ]


def contest(answer: Answer, better: str) -> str:
    """Two strategies in a sentence; `better` is what the objective makes of a lower price."""
    winner, runner_up, factor = answer["winner"], answer["runner_up"], answer["factor"]
    if winner is None:
        return "not known, as the running batch does not fit"
    if runner_up is None:
        return f"{winner}, the only one this engine has"
    if answer["close"]:
        return f"{winner} or {runner_up}, too close to call"
    return f"{winner}, {'' if factor is None else format_ratio(factor) + ' '}{better} than {runner_up}"


def flip(entry: Answer) -> str:
    name, format_value = FLIPS[entry["what"]]
    side = "below" if entry["at"] < entry["now"] else "above"
    return f"  {name} {side} {format_value(entry['at'])} (now {format_value(entry['now'])}): {entry['then']}"


def pays_from(count: int | None) -> str:
    if count is None:
        return "an offloaded copy does not pay for its write within 1,000 preemptions"
    return f"an offloaded copy pays for its write from preemption {count} on"


def figure19(answer: Answer) -> str:
    rows = [["block [tokens]", "swap", "recompute / swap as plotted", "as measured"]]
    for index, block in enumerate(answer["block_tokens"]):
        ratios = (significant(answer[key][index], 3) for key in ("ratio", "ratio_measured"))
        rows.append([str(block), format_seconds(answer["swap_s"][index], 3), *ratios])
    return "\n".join([
        "Figure 19a of the vLLM paper: OPT-13B, A100-40GB, 256 tokens", "",
        table(rows), "",
        f"recompute: {format_seconds(answer['recompute_plotted_s'], 3)} as plotted, "
        f"{format_seconds(answer['recompute_measured_s'], 3)} as measured",
        f"as plotted they cross at a block of {significant(answer['crossing_block_tokens'], 3)} tokens; "
        f"the nearest one plotted is {answer['crossing_plotted_block_tokens']}",
    ])  # fmt: skip


def scenarios(answer: Answer) -> str:
    rows = answer["rows"]
    return "\n\n".join(
        "\n".join([f"{row['id']}: the article says {row['article']}", f"  {row['condition']}"]
                  + [f"  {part}" for part in row["model"].split("; ")])
        for row in rows
    )  # fmt: skip


def claims(answer: Answer) -> str:
    import textwrap

    def paragraph(entry: Answer) -> str:
        lines = [entry["says"], f"ours: {entry['ours']}", f"condition: {entry['condition']}", f"open: {entry['link']}"]
        paragraphs = (textwrap.fill(line, 110, initial_indent="  ", subsequent_indent="    ") for line in lines)
        return "\n".join([f"{entry['id']}  {entry['verdict']}", *paragraphs])

    return "\n\n".join(map(paragraph, answer["claims"]))


def chart(answer: Answer) -> str:
    return f"{answer['chart']} is in {answer['output']}"


def report(answer: Answer) -> str:
    beside = f"; its charts are in {' and '.join(answer['charts'])}" if answer["charts"] else ""
    return f"the memo is in {answer['report']}{beside}"
