"""Each format on a small hand-written file in its documented format."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from perfatlas.quantities import InvalidSpecError
from perfatlas.serving.requests import TICKS_PER_SECOND, Requests
from perfatlas.serving.traces import TraceWindow, blocks as trace_blocks, read_requests
from perfatlas.serving.traces.own import read_own
from tests.serving.support import FIXTURES, check_invariants, hashes_of

SAMPLES = {"vllm": "vllm_bench.json", "aiperf": "aiperf_profile_export.jsonl"}


def seconds(requests: Requests) -> list[float]:
    return [float(time) for time in requests.arrival_N / TICKS_PER_SECOND]


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_keep_the_promises_of_requests(name: str) -> None:
    check_invariants(read_requests(FIXTURES / SAMPLES[name], name).requests)


def test_vllm_benchmark_results() -> None:
    trace = read_requests(FIXTURES / "vllm_bench.json", "vllm")
    # in the order of their start: the second, the first, the fourth; the third failed
    assert seconds(trace.requests) == [0.0, 0.25, 2.25]
    assert trace.requests.isl_N.tolist() == [200, 100, 400]
    assert trace.requests.osl_N.tolist() == [20, 10, 40]
    assert trace.warnings == (
        "1 request excluded: failed or without tokens",
        "1 of 3 rows arrives before the previous row (first: request 2); rows were sorted by time",
    )


def test_vllm_server_log_over_new_year() -> None:
    trace = read_requests(FIXTURES / "vllm_server.log", "vllm")
    assert seconds(trace.requests) == [0.0, 2.0]
    assert trace.requests.isl_N.tolist() == [3, 5]
    assert trace.requests.osl_N.tolist() == [16, 128]
    assert "maximum output" in trace.warnings[0]


def test_aiperf_records() -> None:
    trace = read_requests(FIXTURES / "aiperf_profile_export.jsonl", "aiperf")
    requests = trace.requests
    assert seconds(requests) == [0.0, 1.0, 1.35]
    assert requests.isl_N.tolist() == [300, 100, 150]
    assert requests.osl_N.tolist() == [40, 20, 30]
    assert requests.session_N.tolist() == [0, 1, 1]
    # the first turn ended at .25 s, the second began at .35 s
    assert requests.pause_N.tolist() == [-1, -1, TICKS_PER_SECOND // 10]
    assert trace.warnings[:2] == (
        "1 request excluded: of the warm-up phase",
        "1 request excluded: cancelled",
    )
    assert not trace.partial_N.any()


def test_aiperf_sessions_without_their_first_turn_are_partial(tmp_path: Path) -> None:
    lines = (FIXTURES / "aiperf_profile_export.jsonl").read_text().splitlines(keepends=True)
    path = tmp_path / "later.jsonl"
    path.write_text("".join(lines[2:]))
    assert read_requests(path, "aiperf").partial_N.tolist() == [False, True]


def test_aiperf_conversations_have_no_token_counts(tmp_path: Path) -> None:
    path = tmp_path / "dag.jsonl"
    path.write_text('{"session_id": "a", "turns": [{"messages": [], "max_tokens": 9}]}\n')
    with pytest.raises(InvalidSpecError, match=r"line 1: .*a dag_jsonl contains texts without"):
        read_requests(path, "aiperf")


def test_aiperf_records_of_early_versions() -> None:
    trace = read_requests(FIXTURES / "aiperf_early.jsonl", "aiperf")
    assert trace.requests.isl_N.tolist() == [550]
    assert trace.requests.osl_N.tolist() == [193]
    assert trace.warnings == ("1 request excluded: failed",)


def test_azure_stamps_with_a_zone(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2024-05-10 00:00:00.009930+00:00,2162,5\n"
        "2024-05-10 02:00:01+02:00,2399,6\n"
    )
    assert read_requests(path, "azure").requests.arrival_N.tolist() == [0, 990_070_000_000]


IDS = [1, 2, 3, 4]
ROWS = [
    {"arrival_s": 0.0, "isl": 40, "osl": 5, "prefix_hash_ids": IDS[:3], "session": "a", "turn": 0},
    {"arrival_s": 0.1, "isl": 16, "osl": 6, "prefix_hash_ids": IDS[:1], "session": "b", "turn": 0},
    {"arrival_s": 2.5, "isl": 49, "osl": 7, "prefix_hash_ids": IDS, "session": "a", "turn": 1},
]


def write_own(folder: Path, suffix: str, rows: list[dict[str, object]]) -> Path:
    path = folder / f"requests{suffix}"
    if suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        lines = [",".join(rows[0])]
        for row in rows:
            cells = (f'"{c}"' if isinstance(c, list) else str(c) for c in row.values())
            lines.append(",".join(cells))
        path.write_text("\r\n".join(lines))
    return path


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_own_format_in_every_kind_of_file(tmp_path: Path, suffix: str) -> None:
    trace = read_requests(write_own(tmp_path, suffix, ROWS))
    requests = trace.requests
    check_invariants(requests)
    assert trace.warnings == ()
    assert requests.arrival_N.tolist() == [0, TICKS_PER_SECOND // 10, 5 * TICKS_PER_SECOND // 2]
    assert requests.isl_N.tolist() == [40, 16, 49]
    assert requests.session_N.tolist() == [0, 1, 0]
    # 40 tokens in 3 blocks: 14 to 19; 16 in 1: from 16; 49 in 4: 13 to 16
    assert requests.hash_block == 16
    prompts = [hashes_of(requests, i).tolist() for i in range(3)]
    assert prompts == [[1, 2, 3], [1], [1, 2, 3, 4]]


def test_own_csv_takes_ids_with_blanks_between(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("arrival_s,isl,osl,prefix_hash_ids\n0,40,5,7 8 9\n1,49,5,1 2 3 4\n")
    requests = read_own(path, hash_block=16).requests
    assert [hashes_of(requests, i).tolist() for i in range(2)] == [[7, 8, 9], [1, 2, 3, 4]]


def test_own_block_is_asked_for_where_rows_allow_several(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("arrival_s,isl,osl,prefix_hash_ids\n0,100,5,7 8\n")
    # 50 to 99 tokens: 64 is the only power of two
    trace = read_own(path)
    assert trace.requests.hash_block == 64
    assert "fit blocks of 50 to 99 tokens; 64 is used" in trace.warnings[0]
    assert read_own(path, hash_block=50).requests.hash_block == 50
    with pytest.raises(InvalidSpecError, match=r"line 2: 2 hashes.*100 tokens"):
        read_own(path, hash_block=49)
    path.write_text("arrival_s,isl,osl,prefix_hash_ids\n0,10,5,7\n")
    with pytest.raises(InvalidSpecError, match="set hash_block"):
        read_own(path)


def test_own_numbered_sessions(tmp_path: Path) -> None:
    rows = [dict(row) for row in ROWS]
    for row, session in zip(rows, (7, -1, 7), strict=True):
        row["session"] = session
    for suffix in (".jsonl", ".parquet"):
        assert read_own(write_own(tmp_path, suffix, rows)).requests.session_N.tolist() == [0, -1, 0]


def test_byte_order_marks_and_carriage_returns_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbfarrival_s,isl,osl\r\n0,5,6\r\n1,7,8\r\n\r\n")
    assert read_own(path).requests.osl_N.tolist() == [6, 8]


def test_unsigned_hashes_keep_their_bits(tmp_path: Path) -> None:
    rows = [{"arrival_s": 0, "isl": 9, "osl": 1, "prefix_hash_ids": [2**64 - 1, 5]}]
    requests = read_own(write_own(tmp_path, ".jsonl", rows), hash_block=8).requests
    assert hashes_of(requests, 0).tolist() == [-1, 5]


def test_unsorted_times_are_sorted_with_a_count(tmp_path: Path) -> None:
    rows = [
        {"timestamp": t, "input_length": 512 * n, "output_length": 1, "hash_ids": list(range(n))}
        for t, n in ((3000, 1), (1000, 2), (2000, 3), (1500, 4))
    ]
    path = write_own(tmp_path, ".jsonl", rows)
    trace = read_requests(path, "mooncake")
    check_invariants(trace.requests)
    assert seconds(trace.requests) == [1.0, 1.5, 2.0, 3.0]
    assert trace.requests.isl_N.tolist() == [1024, 2048, 1536, 512]
    assert hashes_of(trace.requests, 1).tolist() == [0, 1, 2, 3]
    assert trace.warnings == (
        "2 of 4 rows arrive before the previous row (first: line 2); rows were sorted by time",
    )


def test_windows_cut_while_reading(tmp_path: Path) -> None:
    path = write_own(tmp_path, ".jsonl", ROWS)
    assert read_own(path, TraceWindow(start_s=0.1, end_s=2.5)).requests.arrival_N.tolist() == [0]
    assert read_own(path, TraceWindow(first=2)).requests.isl_N.tolist() == [40, 16]
    with pytest.raises(InvalidSpecError, match="selected window"):
        read_own(path, TraceWindow(start_s=3.0))


row = st.fixed_dictionaries(
    {
        "timestamp": st.integers(0, 10**9) | st.floats(0, 1e9),
        "input_length": st.integers(1, 2000),
        "output_length": st.integers(1, 2000),
    }
)


@given(st.lists(row, min_size=1, max_size=20), st.booleans(), st.integers(1, 300))
def test_compiled_and_spelled_out_reading_agree(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[dict[str, float]],
    ended: bool,  # noqa: FBT001
    block_bytes: int,
) -> None:
    whole = [r | {"hash_ids": list(range(-(-int(r["input_length"]) // 512)))} for r in rows]
    lines = [json.dumps(r) for r in whole]
    folder = tmp_path_factory.mktemp("trace")
    plain, odd = folder / "plain.jsonl", folder / "odd.jsonl"
    plain.write_text("\n".join(lines) + "\n" * ended)
    # blank lines make rows be read one by one; small blocks cut anywhere
    odd.write_text("\n\n".join(lines) + "\n" * ended)
    with pytest.MonkeyPatch.context() as patch:
        fast = read_requests(plain, "mooncake")
        patch.setattr(trace_blocks, "BLOCK_BYTES", block_bytes)
        cut = read_requests(plain, "mooncake")
        slow = read_requests(odd, "mooncake")
    for other in (cut, slow):
        for name, column in fast.requests._asdict().items():
            assert np.array_equal(column, getattr(other.requests, name))


own_row = st.fixed_dictionaries(
    {
        "arrival_s": st.floats(0, 1e6) | st.integers(0, 10**6),
        "isl": st.integers(1, 200),
        "osl": st.integers(1, 10**9),
        "session": st.text('ab,"1 -', max_size=3) | st.none(),
    }
)


@given(st.lists(own_row, min_size=1, max_size=15), st.integers(1, 99))
def test_own_kinds_of_file_and_both_ways_of_reading_agree(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]], block: int
) -> None:
    rows.sort(key=lambda row: float(str(row["arrival_s"])))
    for place, row in enumerate(rows):
        count = -(-int(str(row["isl"])) // block)
        row["prefix_hash_ids"] = list(range(place, place + count))
    folder = tmp_path_factory.mktemp("own")
    lines = [json.dumps(row) + "\n" for row in rows]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    contents = {"a.csv": text.getvalue(), "b.csv": text.getvalue().replace("\n", "\n\n")}
    contents |= {"a.jsonl": "".join(lines), "b.jsonl": "\n".join(lines)}
    for name, content in contents.items():
        (folder / name).write_text(content)
    floats = [row | {"arrival_s": float(str(row["arrival_s"]))} for row in rows]
    pq.write_table(pa.Table.from_pylist(floats), folder / "a.parquet", row_group_size=4)
    first, *others = (
        read_own(folder / name, hash_block=block).requests for name in (*contents, "a.parquet")
    )
    check_invariants(first)
    for other in others:
        for name, column in first._asdict().items():
            assert np.array_equal(column, getattr(other, name)), name
