"""The planted faults of `benchmarks.mutations` still have their place in the code."""

from pathlib import Path

import pytest

import kvmodel
from benchmarks.mutations import MUTATIONS, place

PACKAGE = Path(kvmodel.__file__).parent


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_fault_can_be_planted(mutation):
    assert place(mutation, PACKAGE) is not None
