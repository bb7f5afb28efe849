"""Executors: a function of a text and a number, called for many numbers in other processes.

The function is importable by name, and its result depends on its arguments alone, so that the
order in which results arrive, and a repeated call after a worker died, change nothing.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from perfatlas.quantities import InvalidSpecError, MissingDependencyError, UnsupportedError, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    Task = Callable[[str, int], Any]
T = TypeVar("T")
AHEAD: Final = 2  # tasks per process that wait or run, so that results never pile up
WATCHED_EVERY_S: Final = 1.0
CONNECT_S: Final = 20.0
MAX_BREAKS: Final = 3  # of a pool of processes without a result between
LOCAL: Final = "127.0.0.1"


def usable_processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def local_results(
    task: Task, text: str, numbers: Sequence[int], jobs: int
) -> Generator[tuple[int, Any], None, None]:
    """Yield (number, result) in order of completion, from processes of this machine.

    A process that is killed is replaced and its numbers are computed again.

    Args:
        text: Its first argument.
        numbers: Its second arguments.
        jobs: Number of processes; 1 computes in this one.

    Raises:
        UnsupportedError: Processes are killed again and again, for example for lack of memory.
    """
    if jobs <= 1 or len(numbers) <= 1:
        for number in numbers:
            yield number, task(text, number)
        return
    from concurrent.futures.process import BrokenProcessPool

    pending, breaks = dict.fromkeys(numbers), 0
    while pending:
        try:
            for number, result in _pooled(task, text, list(pending), jobs):
                del pending[number]
                breaks = 0
                yield number, result
        except BrokenProcessPool as problem:
            breaks += 1
            if breaks >= MAX_BREAKS:
                raise UnsupportedError(
                    f"a process was killed {breaks} times while it computed one of"
                    f" {counted(len(pending), 'block')}, perhaps for lack of memory: use fewer"
                    " --jobs"
                ) from problem


def _pooled(
    task: Task, text: str, numbers: Sequence[int], jobs: int
) -> Generator[tuple[int, Any], None, None]:
    """Yield results from one pool of processes, which ends with the iteration."""
    import multiprocessing
    from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait

    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(
        min(jobs, len(numbers)), context, initializer=_begin_worker, initargs=(os.getpid(),)
    )
    waiting = iter(numbers)
    running: dict[Any, int] = {}
    try:
        while True:
            for number in waiting:
                running[pool.submit(task, text, number)] = number
                if len(running) >= AHEAD * jobs:
                    break
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                result = future.result()  # raises before the number is forgotten
                yield running.pop(future), result
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin_worker(parent: int) -> None:
    """Leave Ctrl-C to the parent process, and end when it is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCHED_EVERY_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def dask_results(
    task: Task, text: str, numbers: Sequence[int], jobs: int, scheduler: str = ""
) -> Generator[tuple[int, Any], None, None]:
    """Yield (number, result) in order of completion, from the workers of a Dask cluster.

    Dask computes the tasks of a worker that is lost again on another one.

    Args:
        task: The function; the workers import it from their own perfatlas.
        text: Its first argument.
        numbers: Its second arguments.
        jobs: Number of workers of a cluster on this machine, if no scheduler is given.
        scheduler: Address of a scheduler, such as tcp://10.0.0.1:8786.

    Raises:
        MissingDependencyError: dask.distributed is not installed.
        InvalidSpecError: The scheduler cannot be reached.
        UnsupportedError: The scheduler is lost, or workers die again and again.
    """
    try:
        import distributed
    except ImportError as problem:
        raise MissingDependencyError(
            "--executor dask needs dask.distributed: pip install '.[distributed]' in the clone"
        ) from problem
    with contextlib.ExitStack() as stack:
        client = _connected(distributed, stack, jobs, scheduler)
        try:
            yield from _submitted(distributed, client, task, text, numbers)
        except (distributed.KilledWorker, *_lost(distributed)) as problem:
            raise UnsupportedError(
                f"the Dask cluster lost the sweep ({type(problem).__name__}: {problem}); check its"
                " scheduler and workers"
            ) from problem


def _lost(distributed: Any) -> tuple[type[BaseException], ...]:  # noqa: ANN401 - a module
    """Return the errors of a scheduler that is gone."""
    from concurrent.futures import CancelledError

    return (distributed.CommClosedError, CancelledError, OSError)


def _connected(distributed: Any, stack: contextlib.ExitStack, jobs: int, scheduler: str) -> Any:  # noqa: ANN401
    """Return a client of a scheduler, or of a cluster of processes on this machine."""
    quiet = logging.CRITICAL  # a lost worker is no error: its tasks are computed again
    logging.getLogger("distributed").setLevel(quiet)
    if not scheduler:
        cluster = distributed.LocalCluster(
            n_workers=jobs,
            threads_per_worker=1,
            host=LOCAL,
            dashboard_address=f"{LOCAL}:0",
            silence_logs=quiet,
        )
        stack.enter_context(cluster)
        return stack.enter_context(distributed.Client(cluster))
    try:
        return stack.enter_context(distributed.Client(scheduler, timeout=CONNECT_S))
    except (OSError, ValueError) as problem:
        raise InvalidSpecError(
            f"cannot reach the Dask scheduler {scheduler!r}: {str(problem) or 'no answer'}; start"
            " one with `dask scheduler`, and workers with `dask worker <address> --nthreads 1`"
        ) from problem


def _submitted(
    distributed: Any,  # noqa: ANN401 - a module
    client: Any,  # noqa: ANN401 - distributed.Client
    task: Task,
    text: str,
    numbers: Sequence[int],
) -> Generator[tuple[int, Any], None, None]:
    """Yield results, with a few tasks per thread of the cluster submitted ahead."""
    waiting = iter(numbers)
    name = f"{task.__name__}-{os.getpid()}"
    running: dict[str, int] = {}
    finished = distributed.as_completed(with_results=True)

    def submit() -> bool:
        number = next(waiting, None)
        if number is None:
            return False
        future = client.submit(task, text, number, key=f"{name}-{number}")
        running[future.key] = number
        finished.add(future)
        return True

    threads = sum(client.nthreads().values()) or 1
    for _ in range(AHEAD * threads):
        submit()
    for future, result in finished:
        number = running.pop(future.key)
        future.release()
        submit()
        yield number, result
