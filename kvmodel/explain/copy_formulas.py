"""Where the seconds of a swap come from: one copy out and one in, call by call and byte by byte."""

from __future__ import annotations

from kvmodel.explain import kv_formulas
from kvmodel.explain.formula import Factor, Line, Term, Trace
from kvmodel.explain.recompute_formulas import as_term
from kvmodel.inputs.case import Case
from kvmodel.memory import kv_cache
from kvmodel.recovery import costs
from kvmodel.recovery.resolve import Inputs
from kvmodel.timing.transfer import Transfer


def swap(case: Case, inputs: Inputs) -> Trace:
    """The first preemption of one case (scalars): bytes, locking of memory where it is to be done, out, in, and all."""
    size_line = kv_formulas.copy_size(case)
    lines = [out_line(inputs, size_line.value), in_line(inputs, size_line.value)]
    if inputs.pin_s_per_byte:
        pin_rate = Factor(r"B_\text{pin}", 1 / float(inputs.pin_s_per_byte), "bytes/s")
        pinning = Term((_size(size_line.value),), (pin_rate,), "pinning")
        lines.insert(0, Line("pinning", r"t_\text{pin}", (pinning,), "s", "recovery.costs.pin_s"))
    total = Line("swap", r"t_\text{swap}", tuple(map(as_term, lines)), "s", "recovery.break_even.swap_s", headline=True)
    return size_line, *lines, total


def out_line(inputs: Inputs, size: float) -> Line:
    """D2H: a cost for each copy and each byte."""
    copy = costs.copy_out(inputs, inputs.tokens)
    terms = (
        Term((_copies(copy), Factor("t_0", float(copy.per_copy_s), "s")), part="per-copy out"),
        Term((_size(size),), (Factor("B", float(copy.bytes_per_s), "bytes/s"),), "wire out"),
    )
    return Line("copy_out", r"t_\text{out}", terms, "s", "recovery.costs.out_s")


def in_line(inputs: Inputs, size: float) -> Line:
    """H2D, and what the engine adds to a load up to the request's next token."""
    copy = costs.load(inputs, inputs.tokens).copy
    blocks = kv_cache.copies(inputs.kv_layers, inputs.tokens, block_tokens=inputs.block_tokens, layout="contiguous")
    terms = [
        Term((_copies(copy), Factor("t_0'", float(copy.per_copy_s), "s")), part="per-copy in"),
        Term((_size(size),), (Factor("B'", float(copy.bytes_per_s), "bytes/s"),), "wire in"),
        Term((Factor(r"t_\text{load}", float(inputs.load_overhead_s), "s"),), part="engine"),
        Term(
            (Factor("N_b", float(blocks), "blocks"), Factor(r"t_\text{block}", float(inputs.load_s_per_block), "s")),
            part="engine",
        ),
        Term((Factor(r"t_\text{next}", float(inputs.next_token_s), "s"),), part="engine"),
    ]
    line_terms = tuple(term for term in terms if term.value or term.part != "engine")
    return Line("copy_in", r"t_\text{in}", line_terms, "s", "recovery.costs.load")


def _copies(copy: Transfer) -> Factor:
    return Factor("N", float(copy.copies), "copies")


def _size(size: float) -> Factor:
    return Factor("M", size, "bytes")


def per_preemption(name: str, total_s: float, preemptions: int) -> Line:
    """All preemptions of a request together: as many times their mean, since each is of a longer context."""
    mean = Factor(rf"\bar t_\text{{{name}}}", total_s / preemptions, "s")
    terms = (Term((Factor("n", preemptions, "preemptions"), mean), part=_PART[name]),)
    return Line("preemptions", r"t_\text{all}", terms, "s", f"recovery.strategies.{name}", headline=True)


_PART = {"swap": "wire out", "recompute": "linear"}
