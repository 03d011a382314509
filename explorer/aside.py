"""Work that would hold up other visitors, done in a process of its own, which ends after some seconds.

`python -m explorer.aside` is where these processes come from: it imports what each needs, and forks one for each order.
A fork takes some milliseconds, a new interpreter half a second; and all that an order used is given back with it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, TypeVar

from kvmodel import words
from kvmodel.errors import CaseError
from kvmodel.units import GIB, KB

T = TypeVar("T")
ROOT = Path(__file__).resolve().parent.parent
LARGE_BYTES = 100 * KB  # of texts: they take a tenth of a second
LONGEST_S = 20
GRACE_S = 5
MOST_BYTES = 2 * GIB  # of a process' address space
NICE = 10
OWN_PROGRAM = "/proc/self/exe"  # of Linux: it can be run again where the folder that it lies in is closed
INTERPRETER = OWN_PROGRAM if os.path.exists(OWN_PROGRAM) else sys.executable
IDLE_S = 30.0  # then its memory is given back
LENGTH = struct.Struct("<Q")
ANSWERED, REFUSED, FAILED, SLOW, TOO_LARGE = "answered", "refused", "failed", "slow", "large"
BY_SIGNAL = {signal.SIGXCPU: SLOW, signal.SIGALRM: SLOW, signal.SIGKILL: TOO_LARGE}  # the last: memory ran out
Parent = subprocess.Popen[bytes]


class Elsewhere:
    """The process that forks, started when there is work for it; one order at a time."""

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._parent: Parent | None = None

    def answer(self, order: bytes, module: str) -> tuple[str, Any]:
        """How it went, and what came of it. Raises CaseError where other orders take too long."""
        with _while_waiting[0]():
            if not self._one_at_a_time.acquire(timeout=LONGEST_S):
                raise refusal("busy")
            try:
                return self._sent(order, module)
            except (OSError, EOFError):  # it has ended: once more with another
                self.close()
                return self._sent(order, module)
            finally:
                self._one_at_a_time.release()

    def _sent(self, order: bytes, module: str) -> tuple[str, Any]:
        if self._parent is None:
            self._parent = subprocess.Popen(
                [sys.executable, "-m", "explorer.aside"], executable=INTERPRETER, cwd=ROOT,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
        orders, answers = self._parent.stdin, self._parent.stdout
        assert orders
        assert answers
        send(orders, pickle.dumps((module, LONGEST_S)))
        send(orders, order)
        if not select.select([answers], [], [], LONGEST_S + GRACE_S)[0]:  # the process that forks is stopped itself
            self.close()
            return SLOW, None
        result: tuple[str, Any] = pickle.loads(received(answers))  # from the app's own code, by the app's own code
        return result

    def close(self) -> None:
        if self._parent is not None:
            self._parent.kill()
            self._parent.communicate()
            self._parent = None


_elsewhere = Elsewhere()
_while_waiting: list[Callable[[], AbstractContextManager[None]]] = [contextlib.nullcontext]


def while_waiting(let_go: Callable[[], AbstractContextManager[None]]) -> None:
    """Told once by an entry that holds something for a page: what lets others have it while the page waits."""
    _while_waiting[:] = [let_go]


def of_texts(work: Callable[..., T], texts: tuple[str | bytes, ...], **named: Any) -> T:
    """What `work` makes of the texts: here where they are short, else as `result_of`."""
    return work(*texts, **named) if sum(map(len, texts)) < LARGE_BYTES else result_of(work, *texts, **named)


def result_of(work: Callable[..., T], *given: Any, **named: Any) -> T:
    """What `work` gives. Raises CaseError, one sentence, also where it takes too long or too much memory.

    `work`, a function of a module, what it is given and what it gives have to be such as pickle takes.
    """
    how, result = _elsewhere.answer(pickle.dumps((work, given, named, dict(words.spoken()))), work.__module__)
    if how == ANSWERED:
        answer: T = result
        return answer
    if how == FAILED:
        raise RuntimeError(result)
    raise CaseError(result) if how == REFUSED else refusal(how)


def refusal(name: str) -> CaseError:
    from explorer import prose  # with Streamlit, which the other process does without

    return CaseError(prose.text("aside", name, {"seconds": str(LONGEST_S)}))


# --- the other process ---


def serve(orders: IO[bytes], answers: IO[bytes]) -> None:
    """Have each order done by a child, until there are no more or none came in a while."""
    with contextlib.suppress(EOFError):
        while select.select([orders], [], [], IDLE_S)[0]:
            module, longest_s = pickle.loads(received(orders))
            importlib.import_module(module)
            order = received(orders)
            reading, writing = os.pipe()
            child = os.fork()
            if not child:
                try:
                    bound(longest_s)
                    with open(writing, "wb") as result:
                        result.write(answer(order))
                    os._exit(0)
                finally:
                    os._exit(1)
            os.close(writing)
            with open(reading, "rb") as result:
                content = result.read()
            _, status = os.waitpid(child, 0)
            send(answers, content if status == 0 else pickle.dumps(ended(status)))


def answer(order: bytes) -> bytes:
    """The result, or the sentence of a refusal, or that memory did not suffice, or where it failed."""
    work, given, named, translations = pickle.loads(order)
    words.speak(translations)
    try:
        return pickle.dumps((ANSWERED, work(*given, **named)))
    except CaseError as error:
        return pickle.dumps((REFUSED, str(error)))
    except MemoryError:
        return pickle.dumps((TOO_LARGE, None))
    except Exception:
        return pickle.dumps((FAILED, traceback.format_exc()))


def ended(status: int) -> tuple[str, Any]:
    """How a child that gave no answer ended."""
    code = os.waitstatus_to_exitcode(status)
    return (BY_SIGNAL[signal.Signals(-code)], None) if -code in BY_SIGNAL else (FAILED, f"it ended with status {code}")


def bound(longest_s: int) -> None:
    """Keep this process from taking what visitors need."""
    signal.alarm(longest_s)
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (longest_s, longest_s + 1))


def send(stream: IO[bytes], content: bytes) -> None:
    stream.write(LENGTH.pack(len(content)))
    stream.write(content)
    stream.flush()


def received(stream: IO[bytes]) -> bytes:
    """Raises EOFError where the other side is gone."""
    (length,) = LENGTH.unpack(exactly(stream, LENGTH.size))
    return exactly(stream, length)


def exactly(stream: IO[bytes], length: int) -> bytes:
    content = stream.read(length)
    if len(content) < length:
        raise EOFError
    return content


if __name__ == "__main__":
    os.nice(NICE)
    serve(sys.stdin.buffer, sys.stdout.buffer)
