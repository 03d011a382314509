"""What to do with the KV cache of a preempted request: wait, swap, recompute or offload, in numbers."""

from kvmodel.case import Case
from kvmodel.comparison import compare
from kvmodel.errors import CaseError

__version__ = "0.1.0"
__all__ = ["Case", "CaseError", "__version__", "compare"]
