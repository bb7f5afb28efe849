"""Processes that answer questions in parallel."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from tests.golden.flatten import Scalar
from tests.golden.question import FOLDER
from tests.golden.runner import FIXED, USER_FOLDERS

Answer = dict[str, "Scalar"]


class Answerer:
    """One process of `tests.golden.runner`."""

    def __init__(self, *, preload: bool = True, few_units: bool = False) -> None:
        """Start it with a fixed environment.

        Args:
            preload: Whether it loads the simulators before it forks.
            few_units: Whether one compiled simulator serves all but the plain default scheduler.
        """
        self.folder = tempfile.TemporaryDirectory(prefix="golden")
        environment = {**os.environ, **FIXED, **dict.fromkeys(USER_FOLDERS, self.folder.name)}
        environment.pop("PERFATLAS_HOME", None)
        words = [sys.executable, "-m", "tests.golden.runner"]
        words += [] if preload else ["--no-preload"]
        words += ["--few-units"] if few_units else []
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=FOLDER.parents[1],
            env=environment,
        )

    def ask(self, number: int) -> Answer:
        """Return the answer of a question.

        Args:
            number: Its index in the file of questions.
        """
        source, target = self.process.stdout, self.process.stdin
        if source is None or target is None:
            raise RuntimeError("the process was started without pipes")
        target.write(f"{number}\n")
        target.flush()
        answer: Answer = json.loads(source.readline())["answer"]
        return answer

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        place: TracebackType | None,
    ) -> None:
        """End the process."""
        self.process.communicate()
        self.folder.cleanup()


def answer_all(
    numbers: Sequence[int], *, jobs: int, preload: bool = True
) -> Iterator[tuple[int, Answer]]:
    """Yield the answers of questions in the order asked.

    Args:
        numbers: Their indices in the file of questions.
        jobs: Number of processes.
        preload: Whether simulators are loaded before forking.
    """
    free: queue.SimpleQueue[Answerer] = queue.SimpleQueue()

    def ask(number: int) -> Answer:
        answerer = free.get()
        try:
            return answerer.ask(number)
        finally:
            free.put(answerer)

    answerers = [Answerer(preload=preload) for _ in range(jobs)]
    try:
        for answerer in answerers:
            free.put(answerer)
        with ThreadPoolExecutor(jobs) as pool:
            yield from zip(numbers, pool.map(ask, numbers), strict=True)
    finally:
        for answerer in answerers:
            answerer.__exit__(None, None, None)
