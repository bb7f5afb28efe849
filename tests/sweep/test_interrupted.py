"""Interrupted sweeps: nothing finished is lost, and --resume completes to the same bytes."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perfatlas
from perfatlas.cli import main
from perfatlas.quantities import InvalidSpecError, UnsupportedError, UsageError
from perfatlas.studies import RunFolder, local_results
from perfatlas.verbs.sweep import answer as sweeping
from tests.sweep.support import BLOCKS, GEMM, blocks_of, start, write_study
from tests.sweep.tasks import squared_once


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the blocks of an uninterrupted run, and its summary."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(folder))
        perfatlas.sweep({**GEMM, "name": "gemm"}, jobs=1)
    found = blocks_of(folder)
    assert len(found) == BLOCKS
    return found


def stopping(after: int, how: BaseException) -> Callable[..., None]:
    def watch(tally: Any) -> None:  # noqa: ANN401 - counts
        if tally.blocks >= after:
            raise how

    return watch


def test_a_killed_sweep_resumes_to_the_same_bytes(
    tmp_path: Path, home: Path, whole: dict[str, bytes]
) -> None:
    study = str(write_study(tmp_path, GEMM))
    running = start(home, "sweep", study, "--jobs", "1")
    while not list(home.glob("perfatlas/runs/gemm-*/blocks/*.parquet")):
        assert running.poll() is None, "the sweep ended before its first block"
        time.sleep(0.005)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    kept = blocks_of(home)
    assert all(whole[name] == content for name, content in kept.items())
    if len(kept) < BLOCKS:
        with pytest.raises(UsageError, match="add --resume to continue it"):
            perfatlas.sweep(study, jobs=1)
    found = perfatlas.sweep(study, jobs=1, resume=True)
    assert blocks_of(home) == whole
    assert found.results["rows"] == 2560
    assert not list(home.glob("perfatlas/runs/gemm-*/**/*.tmp")) or len(kept) < BLOCKS


@pytest.mark.parametrize("after", [1, 4, BLOCKS - 1])
def test_ctrl_c_keeps_finished_blocks(home: Path, whole: dict[str, bytes], after: int) -> None:
    study = {**GEMM, "name": "gemm"}
    with pytest.raises(KeyboardInterrupt, match=rf"{after} of 10 blocks.*gemm-.*--resume"):
        perfatlas.sweep(study, jobs=1, watch=stopping(after, KeyboardInterrupt()))
    assert len(blocks_of(home)) == after
    assert main(["runs", "list", "--json"]) == 0
    done = perfatlas.sweep(study, jobs=1, resume=True)
    assert blocks_of(home) == whole
    again = perfatlas.sweep(study, jobs=1)  # complete: nothing is computed
    assert _told(again.results) == _told(done.results)


def _told(results: Any) -> dict[str, Any]:  # noqa: ANN401 - results
    return {name: v for name, v in results.items() if name not in ("elapsed_s", "points_per_s")}


def test_a_full_disk_loses_nothing_finished(
    home: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    study = {**GEMM, "name": "gemm"}
    replace = Path.replace
    written: list[Path] = []

    def full(scratch: Path, target: Path) -> Path:
        if target.suffix == ".parquet":
            if len(written) == 3:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written.append(target)
        return replace(scratch, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        text = r"No space left on device; 3 of 10 blocks kept in run gemm-\w+: .* --resume"
        with pytest.raises(InvalidSpecError, match=text):
            perfatlas.sweep(study, jobs=1)
    assert len(blocks_of(home)) == 3
    assert not list(home.glob("perfatlas/runs/*/blocks/.*"))
    perfatlas.sweep(study, jobs=1, resume=True)
    assert blocks_of(home) == whole


def test_damaged_blocks_are_named_and_computed_again(
    home: Path, whole: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    study = {**GEMM, "name": "gemm"}
    run = perfatlas.sweep(study, jobs=1).run
    page = bytearray(whole["000004.parquet"])
    page[len(page) // 4] ^= 0xFF  # inside a page
    run.block_path(4).write_bytes(page)
    run.block_path(6).write_bytes(whole["000006.parquet"][:-100])
    run.block_path(8).unlink()
    output = str(home / "rows.csv")
    assert main(["runs", "export", run.id, "--output", output]) == 3
    said = " ".join(capsys.readouterr().err.split())
    assert re.search(rf"run folder '.*{run.id}' is damaged: blocks/000006.parquet", said)
    assert "repeat the sweep with --resume" in said
    done = perfatlas.sweep(study, jobs=1, resume=True)
    assert done.warnings == ("2 damaged blocks computed again: 000004.parquet, 000006.parquet",)
    assert blocks_of(home) == whole


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("run.json", "{", r"run.json cannot be read .*delete it with `perfatlas runs rm gemm-"),
        ("run.json", '{"id": "gemm"}', r"run.json lacks name, command"),
        ("summary.json", "[", r"summary.json cannot be read; delete '.*summary.json'"),
    ],
)
def test_a_damaged_folder_is_named_with_what_to_do(
    file: str, content: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    study = {**GEMM, "name": "gemm", "vary": {"m": [1, 2]}}
    run = perfatlas.sweep(study, jobs=1).run
    (run.path / file).write_text(content, "utf-8")
    with pytest.raises(InvalidSpecError, match=rf"run folder '.*{run.id}' is damaged: {message}"):
        perfatlas.sweep(study, jobs=1)
    assert main(["runs", "list", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["results"]["runs"]
    assert row["state"] == "damaged"
    assert main(["runs", "rm", run.id]) == 0
    perfatlas.sweep(study, jobs=1)


def test_a_damaged_index_is_named_and_made_again(home: Path) -> None:
    run = perfatlas.sweep({**GEMM, "name": "gemm", "vary": {"m": [1, 2]}}, jobs=1).run
    index = home / "perfatlas" / "runs" / "index.sqlite"
    index.write_bytes(b"no database" * 400)
    with pytest.raises(InvalidSpecError, match=r"index of runs '.*sqlite'.* delete this file"):
        perfatlas.studies.indexed_runs()
    index.unlink()
    assert [row["id"] for row in perfatlas.studies.indexed_runs()] == [run.id]


def test_one_process_at_a_time_writes_a_run(home: Path) -> None:
    study = {**GEMM, "name": "gemm", "vary": {"m": [1, 2]}}
    run = perfatlas.sweep(study, jobs=1).run
    with run.locked():
        with pytest.raises(UsageError, match=f"writing run {run.id}"):
            perfatlas.sweep(study, jobs=1)
        with pytest.raises(UsageError, match="another process is writing"):
            run.remove()
        (run.path / "summary.json").unlink()
        assert perfatlas.studies.indexed_runs()[0]["state"] == "running"
        assert RunFolder(run.path).is_running()
    assert home in run.path.parents


def test_other_versions_and_data_are_other_runs(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = {**GEMM, "name": "gemm", "vary": {"m": [1, 2]}}
    first = perfatlas.sweep(study, jobs=1).run
    described = json.dumps(first.describe())
    hashes = {**first.describe()["data_hashes"], "calibrations": "sha256:0"}
    monkeypatch.setattr(sweeping.studies, "data_hashes", lambda: hashes)
    with pytest.raises(UnsupportedError, match="begun with calibrations sha256:0"):
        perfatlas.sweep(study, jobs=1)
    assert described == json.dumps(first.describe())
    assert len(list(home.glob("perfatlas/runs/gemm-*"))) == 2


def test_a_killed_process_is_replaced(tmp_path: Path) -> None:
    found = dict(local_results(squared_once, str(tmp_path), range(8), 2))
    assert found == {number: number**2 for number in range(8)}
    assert (tmp_path / "killed").exists()
