"""The faults of `benchmarks.mutations` can be planted where they should, and nowhere else."""

import ast
from pathlib import Path

import pytest

from benchmarks import mutations
from benchmarks.mutation_runs import Chosen, chosen, read_by
from benchmarks.mutation_sites import MODULE, Fault, faults, scope_at

SOURCE = '''
"""1 + 1 is 2."""
__all__ = ["of"]
from functools import lru_cache
LIMIT: int = 2
class Of:
    field: int | None = 7
    @lru_cache(maxsize=5)
    def it(self, x: "1 + 2", y: int = 3) -> list[0]:
        """x < y"""
        if not x:
            raise ValueError(f"{x + 1} of {y}", 1)
        return [one for one in zip(x, y, strict=True) if 한글(one, 4) and one < y]
'''


@pytest.mark.parametrize("fault", mutations.planted(), ids=lambda fault: fault.name)
def test_a_fault_can_be_planted(fault: mutations.Planted) -> None:
    found = mutations.place(fault)
    assert found is not None
    assert bool(fault.noticed_by) or found.path.startswith("kvmodel/")
    source = (mutations.ROOT / found.path).read_bytes()
    assert found.planted(source).decode() == source.decode().replace(fault.old, fault.new)


def test_simple_faults_of_a_file() -> None:
    source = SOURCE.encode()
    found = {(fault.scope, fault.kind, source[fault.start : fault.end].decode(), fault.new)
             for fault in faults("kvmodel/of.py", source)}  # fmt: skip
    assert found == {
        (MODULE, "constant", "2", "3"),
        (MODULE, "constant", "7", "8"),
        ("Of.it", "constant", "3", "4"),
        ("Of.it", "not", "not x", "(x)"),
        ("Of.it", "constant", "4", "5"),
        ("Of.it", "arguments", "one, 4", "4, one"),
        ("Of.it", "boolean", "한글(one, 4) and one < y", "((한글(one, 4)) or (one < y))"),
        ("Of.it", "comparison", "one < y", "((one) <= (y))"),
        ("Of.it", "comparison", "one < y", "((one) >= (y))"),
    }
    assert scope_at(source, SOURCE.count("\n")) == "Of.it"
    assert scope_at(source, 5) == MODULE


def test_every_simple_fault_of_the_model_is_a_program() -> None:
    total = 0
    for path in sorted(Path(mutations.ROOT / "kvmodel").rglob("*.py"))[::12]:
        source = path.read_bytes()
        before = ast.dump(ast.parse(source))
        for fault in list(faults(path.name, source))[::10]:
            total += 1
            assert ast.dump(ast.parse(fault.planted(source))) != before, fault
    assert total > 60


def test_a_sample_has_every_kind_and_is_drawn_again_by_its_seed() -> None:
    one, again, other = (mutations.drawn(70, seed, "kvmodel/hf/") for seed in (1, 1, 2))
    assert one == again != other
    kinds = [fault.kind for fault in one]
    assert {kinds.count(kind) for kind in kinds} == {10}
    assert len(set(kinds)) == 7


def test_the_tests_that_can_notice_a_fault() -> None:
    notes = {
        "tests/other/test_a.py": {"shared": [], "tests": {"a::1": {"seconds": 1.0, "ran": ["kvmodel/x/y.py:of"]},
                                                          "a::2": {"seconds": 1.0, "ran": []}}},
        "tests/x/test_b.py": {"shared": ["kvmodel/x/y.py:of"], "tests": {"b::1": {"seconds": 9.0, "ran": []}}},
        "tests/x/test_c.py": {"shared": [], "failed": ["c::1"],
                              "tests": {"c::1": {"seconds": 1.0, "ran": ["kvmodel/x/y.py:of"]}}},
        "tests/x/test_d.py": {"shared": ["kvmodel/x/y.py:<module>"],
                              "tests": {"d::1": {"seconds": 1.0, "ran": ["kvmodel/z.py:user"]}}},
    }  # fmt: skip

    def of(scope: str, *read_by: str) -> list[Chosen]:
        fault = Fault("kvmodel/x/y.py", 1, scope, "constant", 0, 1, "")
        return chosen(fault, notes, {"kvmodel/x/y.py": {"kvmodel/z.py"}}, set(read_by))

    assert [(one.file, one.tests) for one in of("of")] == [
        ("tests/x/test_b.py", ("b::1",)), ("tests/other/test_a.py", ("a::1",)),
    ]  # fmt: skip
    assert [one.file for one in of(MODULE)] == ["tests/x/test_d.py", "tests/other/test_a.py"]
    assert [one.file for one in of(MODULE, "kvmodel/x/y.py:of")] == [
        "tests/x/test_b.py", "tests/other/test_a.py", "tests/x/test_d.py",
    ]  # fmt: skip
    assert of("unknown") == []


def test_of_a_file_the_cheapest_tests_go_before_those_of_other_files_and_the_rest_after() -> None:
    run = {"ran": ["kvmodel/x/y.py:of"]}
    notes = {
        "tests/x/test_b.py": {
            "shared": [],
            "tests": {"b::slow": {"seconds": 9.0} | run, "b::1": {"seconds": 1.0} | run},
        },
        "tests/other/test_a.py": {"shared": [], "tests": {"a::1": {"seconds": 2.0} | run}},
    }
    order = chosen(Fault("kvmodel/x/y.py", 1, "of", "constant", 0, 1, ""), notes, {})
    assert [one.tests for one in order] == [("b::1",), ("a::1",), ("b::slow",)]


def test_who_reads_what_a_fault_changes_at_import() -> None:
    path = "kvmodel/diagnosis/causes.py"
    source = (mutations.ROOT / path).read_bytes()
    line = source[: source.index(b"\nOTHER_REASONS")].count(b"\n") + 2
    assert read_by(Fault(path, line, MODULE, "constant", 0, 1, "")) == {
        f"{path}:other_reasons", "kvmodel/diagnosis/promql.py:preemptions_of",
    }  # fmt: skip
