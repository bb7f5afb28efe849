from __future__ import annotations

import gzip
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from perfatlas.cli import main
from perfatlas.files import read_table

TABLE = "submit_s,run_s,gpus,user,kind\n0,100,8,ann,a\n1,50,16,bob,b\n2,10,8,bob,b\n3,9,0,bob,b\n"
SACCT = """\
JobID|State|Submit|Start|End|ElapsedRaw|AllocTRES|NodeList|ExitCode
7|NODE_FAIL|{d}T00:00:00|{d}T00:10:00|{d}T01:10:00|3600|gres/gpu=16|n[1-2]|0:0
7|COMPLETED|{d}T01:10:00|{d}T01:20:00|{d}T02:20:00|3600|gres/gpu=16|n[1-2]|0:0
8|COMPLETED|{d}T01:00:00|{d}T01:00:00|{d}T02:00:00|3600|cpu=1|n3|0:0
9|PENDING|{d}T01:00:00|Unknown|Unknown|0||None assigned|0:0
10|COMPLETED|{d}T02:00:00|{d}T02:00:00|{d}T02:30:00|1800|gres/gpu=4|n3|0:0
""".format(d="2026-01-01")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "jobs.csv").write_text(TABLE, "utf-8")
    return tmp_path


def _json(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert main(["fleet", "schedule", *words, "--json"]) == 0
    answer: dict[str, object] = json.loads(capsys.readouterr().out)
    return answer


def test_per_job_and_html_are_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--jobs", "jobs.csv", "--nodes", "2", "--per-job", "o.parquet", "--html", "o.html"]
    assert main(["fleet", "schedule", *words, "--compare", "backfill=none,easy"]) == 0
    assert "--per-job written to o.parquet" in capsys.readouterr().err
    table = read_table(folder / "o.parquet")
    assert table.cells("end_s") == [100.0, 150.0, 12.0]
    assert table.cells("user") == ["ann", "bob", "bob"]
    assert table.cells("state") == ["completed"] * 3
    page = (folder / "o.html").read_text("utf-8")
    assert "Where the GPU time goes" in page
    assert '<th class="text">backfill</th>' in page
    assert '<td class="text">none</td>' in page
    assert '<script src="http' not in page


def test_accounting_is_scheduled_run_by_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.txt").write_text(SACCT, "utf-8")
    words = ["--jobs", "a.txt", "--job-format", "sacct", "--nodes", "2"]
    results = _json(capsys, *words, "--zone", "UTC")["results"]
    assert isinstance(results, dict)
    assert (results["rows_read"], results["rows_ignored"], results["jobs"]) == (6, 3, 3)
    ignored = {row["reason"]: row["first"] for row in results["trace"]["ignored"]}
    assert ignored == {"no GPUs requested": 4, "header": 1, "job that never started": 5}
    assert {row["kind"]: row["jobs"] for row in results["classes"]} == {
        "NODE_FAIL": 1,
        "COMPLETED": 2,
    }
    assert main(["fleet", "schedule", *words[:-1], "1", "--zone", "UTC"]) == 4
    assert "a.txt: row 2: a job of 16 GPUs" in " ".join(capsys.readouterr().err.split())
    assert main(["fleet", "schedule", *words]) == 3
    assert "--zone UTC" in capsys.readouterr().err
    (folder / "a.txt").write_text(SACCT[:420], "utf-8")
    assert main(["fleet", "schedule", *words, "--zone", "UTC"]) == 3
    assert "the file is truncated" in capsys.readouterr().err


def test_compressed_traces_are_read_and_truncated_ones_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--nodes", "2", "--json"]
    assert main(["fleet", "schedule", "--jobs", "jobs.csv", *words]) == 0
    plain = json.loads(capsys.readouterr().out)["results"]
    (folder / "jobs.csv.gz").write_bytes(gzip.compress(TABLE.encode()))
    assert main(["fleet", "schedule", "--jobs", "jobs.csv.gz", *words]) == 0
    packed = json.loads(capsys.readouterr().out)["results"]
    assert packed["trace"].pop("file") == "jobs.csv.gz"
    assert plain["trace"].pop("file") == "jobs.csv"
    assert packed == plain
    sacct = ["--jobs", "a.gz", "--job-format", "sacct", "--zone", "UTC", *words]
    (folder / "a.gz").write_bytes(gzip.compress(SACCT.encode()))
    assert main(["fleet", "schedule", *sacct]) == 0
    told = json.loads(capsys.readouterr().out)
    # 2 x 3600 s on 16 GPUs and 1800 s on 4; the run that lost its node is half of the first two
    assert told["results"]["trace"]["recorded_ends"] == {"NODE_FAIL": 1, "COMPLETED": 2}
    share = 100 * 3600 * 16 / (2 * 3600 * 16 + 1800 * 4)
    said = f"recorded as not completed: 1 NODE_FAIL, {share:.3g}% of the GPU time"
    assert any(said in text for text in told["evidence"]["assumptions"])
    damaged = "is truncated or damaged inside its gzip compression"
    for path, text, flags, said in (
        ("jobs.csv.gz", TABLE, [], damaged),
        ("a.gz", SACCT, sacct[2:6], "line 7: truncated or damaged gzip compression"),
    ):
        (folder / path).write_bytes(gzip.compress(text.encode())[:-9])
        assert main(["fleet", "schedule", "--jobs", path, *words[:2], *flags]) == 3
        err = " ".join(capsys.readouterr().err.split())
        assert f"'{path}'" in err
        assert said in err
        assert "again" in err


def test_ctrl_c_keeps_partial_results() -> None:
    # the signal comes from a thread, some time in the thousands of compiled calls after the third
    words = ["--num-jobs", "20000", "--load", "3", "--nodes", "256"]
    words += ["--backfill", "conservative", "--depth", "100", "--json"]
    program = textwrap.dedent(
        f"""
        import os, signal, sys, threading
        from perfatlas.cli import main
        from perfatlas.reliability.jobs import scheduler
        # a shell starts what runs in the background with Ctrl-C ignored
        signal.signal(signal.SIGINT, signal.default_int_handler)
        calls, run_world = [], scheduler.run_world
        def interrupted(*given):
            calls.append(given)
            if len(calls) == 3:
                threading.Thread(target=os.kill, args=[os.getpid(), signal.SIGINT]).start()
            return run_world(*given)
        scheduler.run_world = interrupted
        sys.exit(main(["fleet", "schedule", *{words!r}]))
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 130, done.stderr
    answer = json.loads(done.stdout)
    results = answer["results"]
    assert results["interrupted"] is True
    assert sum(results["states"].values()) == 20_000
    assert sum(row["share"] for row in answer["breakdown"]) == pytest.approx(1.0)
    assert any("interrupted" in text for text in answer["warnings"])
