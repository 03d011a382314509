"""Processes of this machine as an executor that an interrupt, or the end of the caller, leaves nothing of."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import connection, get_context, parent_process
from types import SimpleNamespace
from typing import Any

worker = SimpleNamespace(computing=False, given_up=False)  # what a worker knows of itself


@contextmanager
def processes(number: int) -> Iterator[Executor]:
    """Processes that end with the block, with an interrupt, and with this process if it is killed.

    An interrupt is raised by the next result, not in the middle of a call: one that met the executor while it holds
    a lock would leave the lock held, and its end would wait for it forever. A second one is raised at once.
    """
    context = get_context("spawn")  # threads of the caller, a test's or an app's, are not copied
    listener, teller = context.Pipe(duplex=False)
    pool = Processes(number, mp_context=context, initializer=begin, initargs=(listener,))
    interrupts: list[int] = []

    def interrupted(signal_number: int, _: Any) -> None:
        interrupts.append(signal_number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        teller.send_bytes(b".")

    here = threading.current_thread() is threading.main_thread()
    ours = here and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, interrupted)
    try:
        yield pool
    except BaseException:
        teller.send_bytes(b".")  # tasks under way are given up
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        listener.close()
        teller.close()
    if interrupts:
        raise KeyboardInterrupt


class Processes(ProcessPoolExecutor):
    """A pool whose tasks can be given up, each as a KeyboardInterrupt in its result."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Future[Any]:
        with without_interrupts():  # a process started here holds them back too, until it has begun
            return super().submit(task, function, *arguments, **keywords)


@contextmanager
def without_interrupts() -> Iterator[None]:
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


# --- in a worker ---


def begin(listener: connection.Connection) -> None:
    signal.signal(signal.SIGINT, give_up)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    threading.Thread(target=listen, args=(listener,), daemon=True).start()


def give_up(*_: Any) -> None:
    """Between tasks nothing is raised: the pool's own locks are taken there."""
    worker.given_up = True
    if worker.computing:
        worker.computing = False
        raise KeyboardInterrupt


def task(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    if worker.given_up:
        raise KeyboardInterrupt
    try:
        worker.computing = True
        return function(*arguments, **keywords)
    finally:
        worker.computing = False


def listen(listener: connection.Connection) -> None:
    caller = parent_process()
    assert caller is not None
    if caller.sentinel not in connection.wait([listener, caller.sentinel]):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        connection.wait([caller.sentinel])
    os._exit(1)
