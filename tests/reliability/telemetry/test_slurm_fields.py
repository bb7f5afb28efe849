from __future__ import annotations

import math
import tracemalloc

import pytest
from hypothesis import given, strategies as st

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.telemetry.formats import slurm_fields
from perfatlas.reliability.telemetry.history import count_hosts, expand_hosts, lone_host


def test_host_list_by_hand() -> None:
    assert expand_hosts("node[1820-1822,1838],login") == (
        "node1820",
        "node1821",
        "node1822",
        "node1838",
        "login",
    )
    assert expand_hosts("n[08-11]") == ("n08", "n09", "n10", "n11")
    assert expand_hosts("r[1-2]n[1-2]x") == ("r1n1x", "r1n2x", "r2n1x", "r2n2x")
    assert expand_hosts("None assigned") == expand_hosts("") == ()


@given(st.lists(st.integers(0, 9999), min_size=1, max_size=30), st.integers(1, 5))
def test_a_list_of_single_hosts_comes_back(numbers: list[int], width: int) -> None:
    names = [str(number).zfill(width) for number in numbers]
    assert expand_hosts(f"n[{','.join(names)}]") == tuple(f"n{name}" for name in names)
    assert expand_hosts(",".join(f"n{name}" for name in names)) == tuple(f"n{n}" for n in names)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("8371-10:29:20", 8371 * 86400 + 10 * 3600 + 29 * 60 + 20.0),
        ("00:00.275", 0.275),
        ("09:48:37", 35317.0),
        ("90:00", 5400.0),
        ("35317", 35317.0),
    ],
)
def test_durations_by_hand(text: str, seconds: float) -> None:
    assert slurm_fields.duration_s(text) == seconds
    assert math.isnan(slurm_fields.duration_s(""))
    assert math.isnan(slurm_fields.duration_s("INVALID"))


@given(st.integers(0, 10**5), st.integers(0, 86399))
def test_written_durations_read_back(days: int, seconds: int) -> None:
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    text = f"{days}-{clock}" if days else clock
    assert slurm_fields.duration_s(text) == days * 86400 + seconds


def test_states_lose_what_sacct_adds() -> None:
    assert slurm_fields.state_name("CANCELLED by 1234") == "CANCELLED"
    assert slurm_fields.state_name("NODE_FAIL") == "NODE_FAIL"
    assert slurm_fields.state_name("RE+") == ""
    assert slurm_fields.state_name("") == ""
    assert slurm_fields.state_name("FINE") == ""


def test_gpus_are_not_counted_twice() -> None:
    assert (
        slurm_fields.gpus_of("billing=28672,cpu=12288,gres/gpu=1024,gres/gpu:h100=1024,node=128")
        == 1024
    )
    assert slurm_fields.gpus_of("cpu=1,mem=62500G") == slurm_fields.gpus_of("") == 0
    with pytest.raises(InvalidSpecError, match="not an amount"):
        slurm_fields.gpus_of("gres/gpu=many")


@pytest.mark.parametrize(
    ("text", "job", "step", "waiting"),
    [
        ("12", "12", "", False),
        ("12_3", "12_3", "", False),
        ("12_[3-7%2]", "12_[3-7%2]", "", True),
        ("12+1.batch", "12+1", "batch", False),
        ("12_3.extern", "12_3", "extern", False),
    ],
)
def test_job_ids(text: str, job: str, step: str, waiting: bool) -> None:  # noqa: FBT001
    assert slurm_fields.job_name(text) == (job, step, waiting)


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), min_size=1, max_size=3),
        min_size=1,
        max_size=4,
    )
)
def test_hosts_are_counted_as_they_are_written_out(names: list[list[tuple[int, int]]]) -> None:
    text = ",".join(
        "r[" + ",".join(f"{low}-{low + more}" for low, more in spans) + "]n[1-2,7]"
        for spans in names
    )
    assert count_hosts(text) == len(expand_hosts(text))


def test_hosts_are_counted_without_writing_them_out() -> None:
    tracemalloc.start()
    # two brackets of a thousand multiply: a million names of 10 letters would take 60 MB
    assert [count_hosts(f"r{rack}n[0-999]x[0-999]") for rack in range(100)] == [1_000_000] * 100
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
    assert lone_host("n[7-7]") == "n7"
    assert lone_host("n[7-8]") == lone_host("") == ""
