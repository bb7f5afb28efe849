"""Worker processes that answer command lines; a question that is given up ends its process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import tempfile
import threading
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.quantities import InvalidSpecError
from perfatlas.web.answers import Reply, answer_command_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from perfatlas.web.uploads import Uploads

PRELOADED_MODULES: Final = [
    "perfatlas.web.answers",
    "numpy",
    "cyclopts",
    "perfatlas.scenario.deployments",
]
FIRST_QUESTIONS: Final = (  # what a process answers before its first question
    "estimate --model=meta-llama/Llama-3.1-8B --system=h200_sxm",
    "compare --model=meta-llama/Llama-3.1-8B --system=h200_sxm --systems=b200_sxm",
)
MAX_WAITING_QUESTIONS: Final = 64  # questions
MAX_ANSWERS_OF_PROCESS: Final = 2000  # of a process, whose caches grow with each
MAX_MEMORY_BYTES: Final = 16 * 2**30  # address space of a process
ATTEMPTS: Final = 2  # processes that a question is put to, if the first ends without a reply
PROCESS_ENDED: Final = (
    f"{ATTEMPTS} processes ended at this question; the log of the server says why"
)
NO_PROCESS: Final = "this server cannot start the process that answers; ask later"
WORKERS_PER_CORE: Final = 4  # more would wait for the cores, and take memory for nothing
SEARCH_NICENESS: Final = 10  # niceness of searches


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Where pages are served, and the limits of questions."""

    host: str = "127.0.0.1"  # Address to listen on
    port: int = 8000  # Port to listen on; 0 for any that is free
    # Questions that are answered at the same time, and as many searches but one
    workers: int = os.cpu_count() or 1
    limit_s: float = 600.0  # Time limit of a search [s]
    short_limit_s: float = 60.0  # Time limit of other questions [s]
    page_after_s: float = 0.7  # Time after which a page is sent before its answer [s]

    def __post_init__(self) -> None:
        """Refuse more processes than the machine can use."""
        cores = os.cpu_count() or 1
        if self.workers > WORKERS_PER_CORE * cores:
            raise InvalidSpecError(
                f"--workers {self.workers}: each is a process; at most {WORKERS_PER_CORE * cores}"
                f" on the {cores} cores of this machine"
            )


class Question(NamedTuple):
    """A checked command line."""

    words: list[str]  # Its words
    command: str  # The command that they begin with
    has_page: bool = False  # Whether its page is asked for
    image: str = ""  # Format of the image of its charts, svg or png; "" for none

    @property
    def key(self) -> tuple[str, ...]:
        """What tells its reply from others."""
        return (*self.words, str(self.has_page), self.image)


def _work(connection: Connection, first_page: Path, priority: int, uploads: str) -> None:
    """Answer questions until the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends its workers
    os.nice(priority)
    with contextlib.suppress(ImportError):  # of systems without this limit
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[1]
        allowed = (
            MAX_MEMORY_BYTES if most == resource.RLIM_INFINITY else min(MAX_MEMORY_BYTES, most)
        )
        resource.setrlimit(resource.RLIMIT_AS, (allowed, most))
    for line in FIRST_QUESTIONS:
        words = line.split()
        answer_command_line(words, command=words[0], page=first_page, tell=lambda _: None)
    lock = threading.Lock()  # lines of progress come from timers too

    def send(message: str | Reply) -> None:
        with lock:
            connection.send(message)

    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            words, command, page = connection.recv()
            send(answer_command_line(words, command=command, page=page, tell=send, uploads=uploads))


class _Worker:
    """A process, the connection to it and the folder that it writes to."""

    def __init__(self, priority: int, uploads: str) -> None:
        self.folder = _folder()
        self.answers = 0
        with contextlib.ExitStack() as unless_started:
            unless_started.callback(self.folder.cleanup)
            try:
                self._start("forkserver", priority, uploads)
            except OSError:  # that server has ended, or its socket in the temporary folder is gone
                self._start("spawn", priority, uploads)
            unless_started.pop_all()

    def _start(self, method: str, priority: int, uploads: str) -> None:
        context: Any = get_context(method)
        context.set_forkserver_preload(PRELOADED_MODULES)
        self.connection, other = context.Pipe()
        with other:
            arguments = (other, self.page(), priority, uploads)
            self.process = context.Process(target=_work, args=arguments, daemon=True)
            self.process.start()

    def page(self) -> Path:
        """Return the file of the page of an answer, in a folder that ends with the process."""
        if not Path(self.folder.name).is_dir():  # the temporary folder was cleaned
            self.folder.cleanup()
            self.folder = _folder()
        return Path(self.folder.name, "page.html")

    def close(self) -> None:
        """End the process and delete its folder."""
        self.process.kill()
        self.process.join()
        self.process.close()
        self.connection.close()
        with contextlib.suppress(OSError):  # deleted at the end of the server
            self.folder.cleanup()

    async def message(self) -> str | Reply:
        """Return the next message, or raise an EOFError if the process has ended."""
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self.connection.fileno(), ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self.connection.fileno())
        message: str | Reply = self.connection.recv()
        return message


def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="perfatlas-web-", ignore_cleanup_errors=True)


class Workers:
    """Processes that answer one question at a time each.

    Args:
        count: Number of processes.
        limit_s: Time limit of a question [s].
        uploads: Files of clients, None for none.
        priority: Niceness of the processes; 0 is that of the server.
    """

    def __init__(
        self, count: int, limit_s: float, uploads: Uploads | None = None, priority: int = 0
    ) -> None:
        """Start the processes."""
        self._limit_s, self._priority, self._uploads = limit_s, priority, uploads
        self._idle: list[_Worker | None] = [self._started() for _ in range(count)]
        self._free = asyncio.Semaphore(count)
        self._waiting = 0

    def close(self) -> None:
        """End all idle processes."""
        while self._idle:
            if worker := self._idle.pop():
                worker.close()

    async def ask(self, question: Question, tell: Callable[[str], None]) -> Reply:
        """Return the reply to a question; if this is cancelled, its process ends.

        Args:
            tell: Gets each line of progress.
        """
        if self._waiting >= MAX_WAITING_QUESTIONS:
            return Reply.refused("busy", "too many questions are waiting; ask later")
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        try:
            if self._uploads and (missing := self._uploads.missing(question.words)):
                return Reply.refused("invalid", missing)
            async with asyncio.timeout(self._limit_s):
                for _ in range(ATTEMPTS):
                    with contextlib.suppress(EOFError, OSError):  # the process ended
                        return await self._reply(question, tell)
            return Reply.refused("defect", PROCESS_ENDED)
        except TimeoutError:
            line = shlex.join(["perfatlas", *question.words])
            text = f"no answer after {self._limit_s:g} s, the time limit of this server"
            return Reply.refused("time_limit", text, advice=[f"`{line}` has no time limit"])
        finally:
            self._free.release()

    async def _reply(self, question: Question, tell: Callable[[str], None]) -> Reply:
        """Put a question to an idle process, and keep it for the next one if it replied."""
        worker = self._idle.pop(0) or self._started()
        is_usable = False  # until there is a reply
        try:
            if not worker:
                return Reply.refused("busy", NO_PROCESS)
            page = worker.page() if question.has_page or question.image else None
            if page and question.image:
                page = page.with_suffix(f".{question.image}")
            worker.connection.send((question.words, question.command, page))
            while isinstance(message := await worker.message(), str):
                tell(message)
            worker.answers += 1
            is_usable = worker.answers < MAX_ANSWERS_OF_PROCESS
            return message
        finally:
            self._idle.append(worker if is_usable else None)
            if worker and not is_usable:
                worker.close()
                self._idle[-1] = self._started()

    def _started(self) -> _Worker | None:
        """Return a process, or None if the system lacks files or memory for one now."""
        try:
            return _Worker(self._priority, str(self._uploads.path) if self._uploads else "")
        except OSError:
            return None
