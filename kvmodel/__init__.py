"""What to do with the KV cache of a preempted request: wait, swap, recompute or offload, in numbers."""

from kvmodel.errors import CaseError
from kvmodel.inputs.case import Case
from kvmodel.recovery.comparison import compare

__version__ = "0.1.0"
__all__ = ["Case", "CaseError", "__version__", "compare"]
