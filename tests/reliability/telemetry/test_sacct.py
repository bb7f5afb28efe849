from __future__ import annotations

import gzip
import math
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.telemetry.formats import read_sacct
from tests.reliability.telemetry.support import check_law, shared

HEADER = (
    "JobID|JobName|State|Submit|Start|End|ElapsedRaw|NodeList|AllocTRES|ExitCode|SubmitLine|End"
)
DAY = "2026-03-02T"


def row(
    job: str, state: str, start: str, end: str, *, submit: str = "", line: str = "sbatch a.sh"
) -> str:
    cells = [job, "run", state, submit or start, start, end, "", "n[1-2]", "gres/gpu=16", "0:0"]
    return "|".join([*cells, line, end])


def log(tmp_path: Path, *rows: str, name: str = "jobs.txt") -> Path:
    path = tmp_path / name
    path.write_text("\n".join((HEADER, *rows)) + "\n", "utf-8")
    return path


def test_a_run_by_hand(tmp_path: Path) -> None:
    runs = read_sacct(
        [log(tmp_path, row("7", "CANCELLED by 12", f"{DAY}01:00:00", f"{DAY}03:30:00"))],
        zone="Europe/Berlin",
    )
    assert runs.job.text() == ["7"]
    assert runs.state.text() == ["CANCELLED"]
    assert runs.start_s_R[0] == 1772409600.0  # 2026-03-02T00:00:00Z: Berlin is an hour ahead
    assert runs.end_s_R[0] - runs.start_s_R[0] == 2.5 * 3600
    assert runs.gpus_R[0] == 16
    assert runs.host_count_R[0] == 2
    operating = runs.occupancy().operating_time((0.0, float(runs.end_s_R[0])))
    assert operating.by_node() == {"n1": 9000.0, "n2": 9000.0}
    check_law(runs.files)


@pytest.mark.parametrize("case", ["fake-line-break", "multiple-multiline", "one-multiline"])
def test_published_outputs_read_as_their_mended_form(case: str) -> None:
    raw, mended = (
        read_sacct([shared(f"sacct_samples/sample-sacct-{case}{end}.txt")], zone="UTC")
        for end in ("", "-expected")
    )
    check_law(raw.files + mended.files)
    assert raw.job.text() == mended.job.text() == ["201729", "201844"]
    assert raw.state.text() == ["FAILED", "REQUEUED"]
    assert raw.gpus_R.tolist() == [1024, 256]
    assert raw.host_count_R.tolist() == [128, 32]
    # the column ElapsedRaw of the two records
    assert (raw.end_s_R - raw.start_s_R).tolist() == [79396.0, 87356.0]
    for name in ("start_s_R", "end_s_R", "submit_s_R"):
        assert np.array_equal(getattr(raw, name), getattr(mended, name)), name
    assert raw.files[0].merged["continuation of the previous record"] > 0


def test_line_breaks_and_delimiters_in_free_text_are_mended(tmp_path: Path) -> None:
    bad = row("7", "FAILED", f"{DAY}01:00:00", f"{DAY}02:00:00", line="a || b\n\n c | d\n")
    runs = read_sacct(
        [log(tmp_path, bad, row("8", "TIMEOUT", f"{DAY}01:00:00", f"{DAY}02:00:00"))], zone="UTC"
    )
    assert runs.job.text() == ["7", "8"]
    assert runs.files[0].repaired == {"delimiters inside free text": 1}
    assert runs.files[0].merged == {"continuation of the previous record": 3}
    check_law(runs.files)


def test_requeued_runs_stay_apart_and_repeats_fall_together(tmp_path: Path) -> None:
    first = row("7", "NODE_FAIL", f"{DAY}01:00:00", f"{DAY}02:00:00")
    open_ = row("7", "RUNNING", f"{DAY}03:00:00", "Unknown", submit=f"{DAY}02:00:00")
    done = row("7", "COMPLETED", f"{DAY}03:00:00", f"{DAY}09:00:00", submit=f"{DAY}02:00:00")
    old = log(tmp_path, first, first, open_)
    new = log(tmp_path, done, open_, name="later.txt")
    runs = read_sacct([old, new], zone="UTC")
    assert runs.state.text() == ["NODE_FAIL", "COMPLETED"]
    assert runs.end_s_R[1] - runs.start_s_R[1] == 6 * 3600
    assert runs.files[0].merged == {"identical to an earlier record": 1}
    assert runs.files[1].merged == {
        "newer record of an earlier run": 1,
        "older record of an earlier run": 1,
    }
    check_law(runs.files)


def test_steps_waiting_and_unknown_states_are_counted(tmp_path: Path) -> None:
    when = (f"{DAY}01:00:00", f"{DAY}02:00:00")
    runs = read_sacct(
        [
            log(
                tmp_path,
                row("7.batch", "FAILED", *when),
                row("7_[3-9%2]", "PENDING", "Unknown", "Unknown", submit=when[0]),
                row("9", "CANCELLED by 1", "None", when[1], submit=when[0]),
                row("10", "ENLIGHTENED", *when),
                row("11+1", "RUNNING", when[0], "Unknown"),
                "",
            )
        ],
        zone="UTC",
    )
    assert runs.job.text() == ["11+1"]
    assert math.isnan(runs.end_s_R[0])
    assert runs.files[0].ignored == {
        "header": 1,
        "step of a job": 1,
        "job that never started": 2,
        "state ENLIGHTENED is unknown": 1,
        "blank": 1,
    }
    check_law(runs.files)


def test_invalid_utf8_is_shown_and_counted(tmp_path: Path) -> None:
    path = log(tmp_path, row("7", "FAILED", f"{DAY}01:00:00", f"{DAY}02:00:00", line="caf@"))
    path.write_bytes(path.read_bytes().replace(b"caf@", b"caf\xe9"))
    runs = read_sacct([path], zone="UTC")
    assert runs.size == 1
    assert runs.files[0].repaired == {"invalid UTF-8 shown as U+FFFD": 1}


def test_summer_time_is_settled_by_the_elapsed_time(tmp_path: Path) -> None:
    # 02:00 to 03:00 of 2026-10-25 occurs twice in Berlin; 3,600 s from 01:30Z+... to the second one
    text = row("7", "FAILED", "2026-10-25T02:30:00", "2026-10-25T02:45:00").split("|")
    text[6] = str(3600 + 900)
    runs = read_sacct([log(tmp_path, "|".join(text))], zone="Europe/Berlin")
    assert runs.end_s_R[0] - runs.start_s_R[0] == 4500.0
    assert len(runs.files[0].repaired) == 1
    gap = row("7", "FAILED", "2026-03-29T02:30:00", "2026-03-29T04:00:00")
    runs = read_sacct([log(tmp_path, gap)], zone="Europe/Berlin")
    assert "nonexistent" in next(iter(runs.files[0].repaired))


@pytest.mark.parametrize(
    ("start", "end", "length_s", "how"),
    [
        # the first 02:30 is 00:30Z, the second 02:10 is 01:10Z: 40 minutes, or an end before
        ("2026-10-25T02:30:00", "2026-10-25T02:10:00", 2400.0, "being after the start"),
        # 03:10 occurs once, 02:10Z: 100 minutes, or 40
        ("2026-10-25T02:30:00", "2026-10-25T03:10:00", 6000.0, "taken as the first"),
        ("2026-10-25T02:10:00", "2026-10-25T02:30:00", 1200.0, "taken as the first"),
    ],
)
def test_summer_time_without_elapsed_time(
    tmp_path: Path, start: str, end: str, length_s: float, how: str
) -> None:
    runs = read_sacct([log(tmp_path, row("7", "FAILED", start, end))], zone="Europe/Berlin")
    assert (runs.end_s_R - runs.start_s_R).tolist() == [length_s]
    (told,) = runs.files[0].repaired
    assert how in told


def test_of_two_ends_of_one_run_the_last_is_kept(tmp_path: Path) -> None:
    one, five = (row("7", "FAILED", f"{DAY}00:30:00", f"{DAY}0{hour}:00:00") for hour in (1, 5))
    newer = read_sacct([log(tmp_path, one, five)], zone="UTC")
    older = read_sacct([log(tmp_path, five, one)], zone="UTC")
    # 00:30 to 05:00
    assert (newer.end_s_R - newer.start_s_R).tolist() == [4.5 * 3600]
    assert (older.end_s_R - older.start_s_R).tolist() == [4.5 * 3600]
    assert newer.files[0].merged == {"newer record of an earlier run": 1}
    assert older.files[0].merged == {"older record of an earlier run": 1}


def test_gzip_reads_the_same_and_cut_off_gzip_is_refused(tmp_path: Path) -> None:
    plain = log(tmp_path, row("7", "FAILED", f"{DAY}01:00:00", f"{DAY}02:00:00"))
    packed = tmp_path / "jobs.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_sacct([packed], zone="UTC").job.text() == ["7"]
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(InvalidSpecError, match=r"jobs\.gz', line \d+: truncated or damaged"):
        read_sacct([packed], zone="UTC")


@given(st.text(st.characters(codec="utf-8"), max_size=300))
def test_any_text_is_read_or_refused_and_never_lost(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "jobs.txt"
    good = row("8", "TIMEOUT", f"{DAY}01:00:00", f"{DAY}02:00:00", line="x")
    body = f"{HEADER}\n{text}\n{good}" + "\n"
    path.write_bytes(body.encode())
    try:
        runs = read_sacct([path], zone="UTC")
    except InvalidSpecError:
        return
    check_law(runs.files)
    assert runs.files[0].total == body.count("\n")
    assert "8" in runs.job.text()


@pytest.mark.parametrize("bar", ["|", "\t", "|#", ";"])
@pytest.mark.parametrize("closed", [False, True], ids=["-P", "-p"])
def test_delimiters(tmp_path: Path, bar: str, closed: bool) -> None:  # noqa: FBT001
    rows = [HEADER, row("7", "FAILED", f"{DAY}01:00:00", f"{DAY}02:00:00")]
    end = bar if closed else ""
    path = tmp_path / "jobs.txt"
    path.write_text("".join(f"{one.replace('|', bar)}{end}\r\n" for one in rows), "utf-8")
    assert read_sacct([path], zone="UTC").job.text() == ["7"]


def test_identifiers_of_runs_and_failed_nodes(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    head = "JobID|SLUID|State|Start|End|NodeList|FailedNode"
    when = f"{DAY}01:00:00|{DAY}02:00:00|n[1-4]"
    rows = [f"7|a|NODE_FAIL|{when}|n3", f"7|b|NODE_FAIL|{when}|", f"7|a|NODE_FAIL|{when}|n3"]
    path.write_text("\n".join([head, *rows]) + "\n", "utf-8")
    runs = read_sacct([path], zone="UTC")
    assert runs.failed_node.text() == ["n3", ""]
    assert runs.files[0].merged == {"identical to an earlier record": 1}


def test_logs_put_together_after_a_cut_are_told(tmp_path: Path) -> None:
    good = row("8", "TIMEOUT", f"{DAY}01:00:00", f"{DAY}02:00:00")
    runs = read_sacct([log(tmp_path, good, "7|run|FAI", good.replace("8", "9", 1))], zone="UTC")
    assert runs.job.text() == ["8", "9"]
    assert runs.files[0].ignored == {"header": 1, "text that belongs to no record": 1}
    assert runs.files[0].first["text that belongs to no record"] == 3
    check_law(runs.files)


def test_times_in_another_format_are_refused_with_the_remedy(tmp_path: Path) -> None:
    epoch = row("7", "FAILED", "1772413200", "1772416800")
    assert read_sacct([log(tmp_path, epoch)], zone="UTC").start_s_R.tolist() == [1772413200.0]
    odd = row("7", "FAILED", "2026-13-02T01:00:00", f"{DAY}02:00:00")
    with pytest.raises(InvalidSpecError, match="SLURM_TIME_FORMAT=standard"):
        read_sacct([log(tmp_path, odd)], zone="UTC")


CELLS = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="|\r\n"), max_size=12),
    st.text("0123456789²٣:-,[]n.+_=TZ", max_size=24),
    st.sampled_from(
        [
            "9" * 400,
            "0001-01-01T00:00:00",
            "9999-12-31T23:59:59",
            "1969-12-31T23:59:59",
            "2026-10-25T02:30:00",
            "Unknown",
            "²:0",
            "99999999999999999999:0",
            "gres/gpu=99999999999999999999",
            "gres/gpu:a=" + "9" * 400,
            "n[0-" + "9" * 30 + "]",
            "9" * 5000 + "-00:00:00",
            "٣" * 10,
        ]
    ),
)
FUZZED = ("JobID", "State", "Submit", "Start", "End", "ElapsedRaw", "NodeList", "AllocTRES")


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles", "Europe/Berlin"])
@given(cells=st.dictionaries(st.sampled_from([*FUZZED, "ExitCode", "FailedNode"]), CELLS))
def test_any_cell_is_read_or_refused_with_its_place(
    tmp_path_factory: pytest.TempPathFactory, zone: str, cells: dict[str, str]
) -> None:
    good = {
        "JobID": "7",
        "State": "FAILED",
        "Submit": f"{DAY}00:30:00",
        "Start": f"{DAY}01:00:00",
        "End": f"{DAY}02:00:00",
        "ElapsedRaw": "3600",
        "NodeList": "n[1-2]",
        "AllocTRES": "gres/gpu=16",
        "ExitCode": "1:0",
        "FailedNode": "n1",
    }
    path = tmp_path_factory.mktemp("cells") / "jobs.txt"
    text = f"{'|'.join(good)}\n{'|'.join((good | cells).values())}\n"
    path.write_text(text, "utf-8", newline="")
    try:
        runs = read_sacct([path], zone=zone)
    except InvalidSpecError as problem:
        assert "line " in str(problem)  # noqa: PT017 - one that reads is as good
        return
    check_law(runs.files)
    assert runs.size <= 1
    assert (runs.start_s_R >= 0.0).all()


def test_lists_of_a_million_hosts_take_little_memory(tmp_path: Path) -> None:
    when = ("FAILED", f"{DAY}01:00:00", f"{DAY}02:00:00")
    rows = [row(str(n), *when).replace("n[1-2]", f"n{n}-[0-999998]") for n in range(1, 101)]
    path = log(tmp_path, *rows)
    tracemalloc.start()
    runs = read_sacct([path], zone="UTC")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert runs.host_count_R.tolist() == [999_999] * 100
    assert peak < 4 << 20  # the names alone would have 5 GB
