"""Sweeps on a Dask cluster: a scheduler and two workers in processes of their own."""

from __future__ import annotations

import builtins
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perfatlas
from perfatlas.quantities import InvalidSpecError, MissingDependencyError
from tests.sweep.support import BLOCKS, GEMM, blocks_of

STUDY = {**GEMM, "name": "gemm"}


def sweep_at(home: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> dict[str, bytes]:  # noqa: ANN401
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    perfatlas.sweep(STUDY, **options)
    return blocks_of(home)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Yield the address of a scheduler and the processes of its two workers."""
    pytest.importorskip("distributed", reason="dask.distributed is not installed")
    file = tmp_path / "scheduler.json"
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    dask = [sys.executable, "-m", "distributed.cli"]
    inside = ["--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0"]
    with contextlib.ExitStack() as stack:

        def run(*words: str) -> subprocess.Popen[bytes]:
            process = subprocess.Popen([*dask, *words], **quiet)
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        program = "from distributed.cli.dask_{0} import main; main()"
        dask = [sys.executable, "-c", program.format("scheduler")]
        scheduler = run("--port", "0", *inside, "--scheduler-file", str(file))
        dask = [sys.executable, "-c", program.format("worker")]
        workers = [
            run("--scheduler-file", str(file), "--nthreads", "1", "--no-nanny", *inside)
            for _ in range(2)
        ]
        while not file.exists():
            assert scheduler.poll() is None, "the scheduler ended before it wrote its address"
            time.sleep(0.05)
        from distributed import Client

        with Client(scheduler_file=str(file)) as client:
            client.wait_for_workers(2)
            address: str = client.scheduler.address
        yield address, workers


@pytest.mark.study
def test_a_worker_killed_mid_sweep_loses_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: tuple[str, list[subprocess.Popen[bytes]]],
) -> None:
    whole = sweep_at(tmp_path / "alone", monkeypatch, jobs=1)
    address, (first, second) = cluster
    seen: list[int] = []

    def kill_one(tally: Any) -> None:  # noqa: ANN401 - counts
        if not seen:
            os.kill(first.pid, signal.SIGKILL)
        seen.append(tally.blocks)

    options = {"executor": "dask", "scheduler": address, "watch": kill_one}
    assert sweep_at(tmp_path / "cluster", monkeypatch, **options) == whole
    assert seen == list(range(1, BLOCKS + 1))
    assert (first.wait(), second.poll()) == (-signal.SIGKILL, None)


def test_a_scheduler_that_does_not_answer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed", reason="dask.distributed is not installed")
    monkeypatch.setattr("perfatlas.studies.executors.CONNECT_S", 0.2)
    with pytest.raises(InvalidSpecError, match=r"'tcp://127.0.0.1:9'.*`dask scheduler`"):
        sweep_at(tmp_path, monkeypatch, executor="dask", scheduler="tcp://127.0.0.1:9")


def test_without_dask_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = builtins.__import__

    def without(name: str, *rest: Any) -> Any:  # noqa: ANN401 - a module
        if name == "distributed":
            raise ImportError(name)
        return load(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingDependencyError, match=r"pip install '.\[distributed\]'"):
        sweep_at(tmp_path, monkeypatch, executor="dask")
