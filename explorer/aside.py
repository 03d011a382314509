"""Work on a large text in a process of its own: it holds up no other visitor, and ends after some seconds.

`python -m explorer.aside` is that process: it takes what to call from its input and writes what came of it.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from kvmodel import words
from kvmodel.errors import CaseError
from kvmodel.units import GIB, KB

T = TypeVar("T")
ROOT = Path(__file__).resolve().parent.parent
LARGE_BYTES = 100 * KB  # a tenth of a second; a process of its own takes half a second to start
LONGEST_S = 20
MOST_BYTES = 2 * GIB  # of its address space
NICE = 10
ANSWERED, REFUSED, TOO_LARGE = "answered", "refused", "too large"
_one_at_a_time = threading.Lock()


def result_of(work: Callable[..., T], texts: tuple[str | bytes, ...], **named: Any) -> T:
    """What `work` makes of the texts, here where they are short. Raises CaseError, one sentence.

    `work`, a function of a module, what it is given and what it gives have to be such as pickle takes.
    """
    if sum(map(len, texts)) < LARGE_BYTES:
        return work(*texts, **named)
    order = pickle.dumps((work, texts, named, dict(words.spoken())))
    if not _one_at_a_time.acquire(timeout=LONGEST_S):
        raise refusal("busy")
    try:
        process = subprocess.run(
            [sys.executable, "-m", "explorer.aside"],
            input=order, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT, timeout=LONGEST_S, check=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise refusal("slow") from None
    except subprocess.CalledProcessError as error:
        if error.returncode in (-signal.SIGXCPU, -signal.SIGKILL):  # by its own bound, or by a machine without memory
            raise refusal("slow" if error.returncode == -signal.SIGXCPU else "large") from None
        raise
    finally:
        _one_at_a_time.release()
    how, result = pickle.loads(process.stdout)  # of a process that this one started, from the app's own code
    if how == ANSWERED:
        answer: T = result
        return answer
    raise CaseError(result) if how == REFUSED else refusal("large")


def refusal(name: str) -> CaseError:
    from explorer import prose  # with Streamlit, which the other process does without

    return CaseError(prose.text("aside", name, {"seconds": str(LONGEST_S)}))


def answer(order: bytes) -> bytes:
    """The result, or the sentence of a refusal, or that memory did not suffice."""
    work, texts, named, translations = pickle.loads(order)
    words.speak(translations)
    try:
        return pickle.dumps((ANSWERED, work(*texts, **named)))
    except CaseError as error:
        return pickle.dumps((REFUSED, str(error)))
    except MemoryError:
        return pickle.dumps((TOO_LARGE, None))


def bound() -> None:
    """Keep this process from taking what visitors need."""
    os.nice(NICE)
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_S, LONGEST_S))


if __name__ == "__main__":
    bound()
    sys.stdout.buffer.write(answer(sys.stdin.buffer.read()))
