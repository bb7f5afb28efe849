"""Long questions: they run on when their page is left, and their answers are kept."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError
from perfatlas.studies import answer_key, keep_answer, kept_answer
from perfatlas.web.answers import Reply

if TYPE_CHECKING:
    from perfatlas.web.workers import Question, Workers

MAX_LINES: Final = 8  # of progress that are shown
MAX_ENDED: Final = 64  # ended jobs that are kept
KEPT_ELSEWHERE: Final = ("sweep",)  # as runs, which a user may delete
SHOWN_S: Final = 5.0  # in which the page that waited shows a reply; later it is asked for again


@dataclass(eq=False)
class Job:
    """A question that is being answered, or was."""

    question: Question
    address: str  # Its page
    lines: list[str] = field(default_factory=list)  # The last lines of progress
    began_s: float = field(default_factory=time.monotonic)
    ended_s: float = math.inf
    task: asyncio.Task[Reply] = field(init=False)

    @property
    def is_running(self) -> bool:
        """Whether there is no reply yet."""
        return not self.task.done()

    @property
    def running_s(self) -> float:
        """Time since it began [s]."""
        return time.monotonic() - self.began_s

    def tell(self, line: str) -> None:
        """Keep a line of progress."""
        self.lines = [*self.lines, line][-MAX_LINES:]


class Jobs:
    """The long questions of a server by key."""

    def __init__(self, workers: Workers) -> None:
        """Answer with processes."""
        self._workers = workers
        self._jobs: dict[str, Job] = {}

    def running(self) -> list[tuple[str, Job]]:
        """Return the jobs that have no reply yet, with their keys."""
        return [(key, job) for key, job in self._jobs.items() if job.is_running]

    def get(self, key: str) -> Job | None:
        """Return a job, None if it is not known."""
        return self._jobs.get(key)

    def ask(self, question: Question, address: str) -> tuple[str, Job]:
        """Return the job of a question with its key, started unless it runs or has just ended."""
        key = answer_key(question.words)
        job = self._jobs.get(key)
        if job is None or time.monotonic() - job.ended_s > SHOWN_S:
            job = Job(question, address)
            job.task = asyncio.ensure_future(self._reply(key, job))
            self._jobs.pop(key, None)
            self._jobs[key] = job
            ended = [name for name, one in self._jobs.items() if not one.is_running]
            for name in ended[:-MAX_ENDED]:
                del self._jobs[name]
        return key, job

    async def reply(self, question: Question, address: str) -> Reply:
        """Return the reply to a question; its job goes on if this is given up."""
        return await asyncio.shield(self.ask(question, address)[1].task)

    async def _reply(self, key: str, job: Job) -> Reply:
        try:
            if (known := await asyncio.to_thread(kept_answer, key)) is not None:
                return Reply(*known)
            reply = await self._workers.ask(job.question, job.tell)
            if reply.is_answer and job.question.command not in KEPT_ELSEWHERE:
                await asyncio.to_thread(keep_answer, key, list(reply))
        except asyncio.CancelledError:
            text = "this question was cancelled; ask it again in a few seconds"
            return Reply.refused("usage", text, status=409)
        except InvalidSpecError as problem:
            job.tell(f"the answer is not kept: {problem}")
        finally:
            job.ended_s = time.monotonic()
        return reply

    def cancel(self, key: str) -> None:
        """End a job and its process."""
        if job := self._jobs.get(key):
            job.task.cancel()

    def close(self) -> None:
        """End all jobs."""
        for key in list(self._jobs):
            self.cancel(key)
