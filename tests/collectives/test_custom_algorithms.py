"""Algorithms of a user's own: closed forms of rings and exchanges, and files without a meaning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perfatlas import collective
from perfatlas.quantities import InvalidSpecError, UnsupportedError

Send = tuple[int, int, float]
SIZE = 2**30


def written(folder: Path, op: str, ranks: int, steps: list[list[Send]], more: str = "") -> str:
    """Return the path of a file with some steps."""
    lines = [f'op = "{op}"', f"ranks = {ranks}"]
    lines += [f"[[step]]\nsends = {[list(send) for send in sends]}" for sends in steps]
    path = folder / "algorithm.toml"
    path.write_text("\n".join(lines) + f"\n{more}")
    return str(path)


def ring(ranks: int, passes: int) -> list[list[Send]]:
    """Return the steps of a ring: one shard of each rank to the next."""
    one = [(rank, (rank + 1) % ranks, 1.0 / ranks) for rank in range(ranks)]
    return [one] * (passes * (ranks - 1))


def timed(path: str, op: str, ranks: int, system: str = "h100_sxm", **fields: Any) -> float:  # noqa: ANN401 - fields
    """Return the time of an algorithm, by default with adaptive routes [s]."""
    asked: dict[str, Any] = {"op": op, "bytes": SIZE, "gpus": ranks, "fabric_routing": "adaptive"}
    found = collective(system=system, algorithm_file=path, **asked | fields).results
    assert found["tier"] == "bound"
    assert found["time_s"] >= found["bound_time_s"]
    return float(found["time_s"])


def test_a_ring_inside_a_node_runs_at_the_rate_of_nvlink(tmp_path: Path) -> None:
    path = written(tmp_path, "all_reduce", 8, ring(8, 2))
    # 14 steps of a hop of 0.6 us and an eighth of the buffer at 450 GB/s
    assert timed(path, "all_reduce", 8) == pytest.approx(14 * (0.6e-6 + SIZE / 8 / 450e9))


def test_a_ring_over_nodes_waits_for_one_nic(tmp_path: Path) -> None:
    path = written(tmp_path, "all_gather", 16, ring(16, 1))
    assert timed(path, "all_gather", 16) == pytest.approx(15 * (2.7e-6 + SIZE / 16 / 50e9))


def test_failed_links_slow_an_algorithm_down_or_are_said_to_have_no_effect(tmp_path: Path) -> None:
    # two nodes below leaves of their own with eight uplinks each, of which seven are left
    fields: dict[str, Any] = {"fabric_routing": "adaptive", "failed_links": 1, "bytes": SIZE}
    fields["system"] = "h100_sxm{fabric.topology=fat_tree, fabric.leaf_nodes=1}"
    every = [(a, b, 1.0 / 16.0) for a in range(16) for b in range(16) if a != b]
    path = written(tmp_path, "all_to_all", 16, [every], 'name = "pairs"')
    asked = fields | {"op": "all_to_all", "gpus": 16, "algorithm_file": path}
    (told,) = [line for line in collective(**asked).warnings if "failed_links" in line]
    assert "slows custom down by 14.3%: with all links up it takes" in told  # 8 / 7
    path = written(tmp_path, "all_gather", 16, ring(16, 1))  # one NIC at a time
    asked |= {"op": "all_gather", "algorithm_file": path}
    (told,) = [line for line in collective(**asked).warnings if "failed_links" in line]
    assert "failed_links = 1 has no effect" in told


def test_sends_of_one_gpu_share_its_link(tmp_path: Path) -> None:
    # all pairs at once: each of 4 GPUs sends 3 quarters over one link
    every = [(a, b, 0.25) for a in range(4) for b in range(4) if a != b]
    together = timed(written(tmp_path, "all_to_all", 4, [every]), "all_to_all", 4)
    assert together == pytest.approx(0.6e-6 + 0.75 * SIZE / 450e9)


def test_steps_that_wait_for_nothing_run_at_the_same_time(tmp_path: Path) -> None:
    pairs = [(0, 1, 0.5), (1, 0, 0.5)]
    in_turn = timed(written(tmp_path, "all_reduce", 2, [pairs, pairs]), "all_reduce", 2)
    more = f'[[step]]\nname = "other"\nafter = []\nsends = {[list(send) for send in pairs]}'
    at_once = timed(written(tmp_path, "all_reduce", 2, [pairs], more), "all_reduce", 2)
    assert in_turn == pytest.approx(2 * (0.6e-6 + SIZE / 2 / 450e9))
    assert at_once == pytest.approx(0.6e-6 + SIZE / 450e9)  # the same link for all bytes


def test_a_short_send_leaves_its_share_to_the_others(tmp_path: Path) -> None:
    # two sends to GPU 1 and two from GPU 0 have 225 GB/s each until the shorter ones have ended;
    # the last has 450 GB/s then, so that the link to GPU 1 is never idle
    sends = [(0, 1, 0.6), (0, 2, 0.3), (1, 0, 0.4), (2, 0, 0.4), (1, 2, 0.4), (2, 1, 0.4)]
    path = written(tmp_path, "all_to_all", 3, [sends])
    assert timed(path, "all_to_all", 3) == pytest.approx(0.6e-6 + SIZE / 450e9)


def test_data_for_another_rail_passes_nvlink_first(tmp_path: Path) -> None:
    # GPU 0 to GPU 9 of the next node, by the NIC of GPU 1: two sends over it share its 50 GB/s
    sends = [(0, 9, 0.5), (1, 9, 0.5), (9, 0, 1.0)]
    rest = ring(16, 1)
    alone = timed(written(tmp_path, "all_gather", 16, rest), "all_gather", 16)
    both = timed(written(tmp_path, "all_gather", 16, [*rest, sends]), "all_gather", 16)
    assert both - alone == pytest.approx(2.7e-6 + SIZE / 50e9)


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
def test_data_that_do_not_reach_a_rank_are_refused(tmp_path: Path, op: str) -> None:
    apart: list[Send] = [(0, 1, 9.0), (1, 0, 9.0), (2, 3, 9.0), (3, 2, 9.0)]
    with pytest.raises(InvalidSpecError, match="no data of rank 2 reach rank 0"):
        timed(written(tmp_path, op, 4, [apart, apart]), op, 4)
    # halving and doubling reaches all in two steps, but not if both start at once
    across: list[Send] = [(0, 2, 9.0), (2, 0, 9.0), (1, 3, 9.0), (3, 1, 9.0)]
    assert timed(written(tmp_path, op, 4, [apart, across]), op, 4) > 0.0
    with pytest.raises(InvalidSpecError, match="no data of rank 3 reach rank 0"):
        timed(written(tmp_path, op, 4, [[*apart, *across]]), op, 4)


def test_data_of_each_rank_of_a_large_ring_are_followed(tmp_path: Path) -> None:
    steps = ring(100, 1)
    assert timed(written(tmp_path, "all_gather", 100, steps), "all_gather", 100) > 0.0
    at_once = [*steps[:-2], steps[-1] * 2]
    with pytest.raises(InvalidSpecError, match="no data of rank 1 reach rank 0"):
        timed(written(tmp_path, "all_gather", 100, at_once), "all_gather", 100)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('op = "all_reduce"', "ranks = None"),
        ('op = "all_reduc"\nranks = 2', "did you mean"),
        ('op = ["all_reduce"]\nranks = 2', "is not one of all_reduce"),
        ("op = {a = 1}\nranks = 2", "is not one of all_reduce"),
        ('op = "all_reduce"\nranks = true', "whole number"),
        ('op = "all_reduce"\nranks = 2', "no steps"),
        ('op = "all_reduce"\nranks = 2\nsteps = 3', "unknown key"),
        ('op = "all_reduce"\nranks = 2\n[[step]]\nsends = []', "no sends"),
        ('op = "all_reduce"\nranks = 2\n[[step]]\nsends = [[0, 2, 1.0]]', "from 0 to 1"),
        ('op = "all_reduce"\nranks = 2\n[[step]]\nsends = [[0, 0, 1.0]]', "two different"),
        ('op = "all_reduce"\nranks = 2\n[[step]]\nsends = [[0, 1, nan]]', "positive share"),
        ('op = "all_reduce"\nranks = 2\n[[step]]\nsends = [[0, 1, -1.0]]', "positive share"),
        ('op = "all_reduce"\nranks = 2\n[[step]]\nsends = [[0, 1, 1e308]]', "at most 1,000,000"),
        ('op = "all_reduce"\nranks = 2\n[[step]]\nsends = [[0, 1, 1.0]]', "rank 1 sends 0"),
        (
            'op = "all_reduce"\nranks = 3\n[[step]]\nsends = [[0,1,1.0],[1,2,1.0],[2,0,1.0]]',
            "all ranks send 3 times",
        ),
        (
            (
                'op = "all_reduce"\nranks = 2\n[[step]]\nname = "a"\nafter = ["b"]\n'
                'sends = [[0, 1, 1.0]]\n[[step]]\nname = "b"\nsends = [[1, 0, 1.0]]'
            ),
            "wait for each other",
        ),
        (
            'op = "all_reduce"\nranks = 2\n[[step]]\nafter = ["z"]\nsends = [[0, 1, 1.0]]',
            "expected names of steps",
        ),
        (
            (
                'op = "all_reduce"\nranks = 2\n[[step]]\nname = "a"\nsends = [[0, 1, 1.0]]\n'
                '[[step]]\nname = "a"\nsends = [[1, 0, 1.0]]'
            ),
            "two steps are named",
        ),
        ("op = [", "TOML"),
    ],
)
def test_files_that_make_no_sense_are_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(InvalidSpecError, match=told):
        timed(str(path), "all_reduce", 2)


@pytest.mark.parametrize(
    ("fields", "kind", "told"),
    [
        ({"ranks": 16}, InvalidSpecError, "set op and gpus to the same"),
        ({"op": "all_gather"}, InvalidSpecError, "set op and gpus to the same"),
        ({"fabric_routing": None}, InvalidSpecError, "set fabric_routing"),
        ({"kernel_family": "nccl"}, InvalidSpecError, "leave kernel_family out"),
        ({"tier": "physics"}, InvalidSpecError, "set tier"),
        ({"concurrent_jobs": 2}, InvalidSpecError, "set concurrent_jobs"),
        ({"system": "mi300x"}, UnsupportedError, "not all linked by one switch"),
    ],
)
def test_what_an_algorithm_does_not_use_is_refused(
    tmp_path: Path, fields: dict[str, Any], kind: type[Exception], told: str
) -> None:
    path = written(tmp_path, "all_reduce", 8, ring(8, 2))
    asked: dict[str, Any] = {"op": "all_reduce", "ranks": 8}
    with pytest.raises(kind, match=told):
        timed(path, **asked | fields)
