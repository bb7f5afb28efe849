"""Errors of published collectives, by machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.hardware import resolve_system
from perfatlas.verbs.collective import collective_columns
from validation.laboratories.unseen_fabrics import OPS, RULES
from validation.runs import read_table, shared_folder
from validation.scoring import read_data

if TYPE_CHECKING:
    from collections.abc import Mapping

LIBRARY: Final = "nccl"
ASKED: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


def fabric_scores() -> list[dict[str, Any]]:
    """Return the error of each published machine, with its nodes, NICs and fabric where stated."""
    rules = read_data(RULES)
    systems = rules["systems"] | rules["judged"]
    runs: dict[tuple[str, bool], list[Mapping[str, str]]] = {}
    for row in read_table(shared_folder() / rules["file"]):
        if row["key"] in systems and OPS.get(row["op"], row["op"]) in ASKED:
            runs.setdefault((row["key"], int(row["nodes"]) > 1), []).append(row)
    return [
        _score(key, own, systems[key], rules["fabrics"].get(key), across=across)
        for (key, across), own in runs.items()
    ]


def _score(
    key: str, rows: list[Mapping[str, str]], system: str, fabric: str | None, *, across: bool
) -> dict[str, Any]:
    by_library = resolve_system(system).device.vendor == "NVIDIA"
    ops = [OPS.get(row["op"], row["op"]) for row in rows]
    columns = collective_columns(
        {
            "system": [_with_network(system, row, fabric) for row in rows],
            "op": ops,
            "bytes": [float(row["bytes"]) for row in rows],
            "gpus": [int(row["gpus"]) for row in rows],
            "nodes": [int(row["nodes"]) for row in rows],
            "kernel_family": [LIBRARY if by_library and op == "all_reduce" else None for op in ops],
        }
    )
    measured_N = 1e-6 * np.array([float(row["time_us"]) for row in rows])
    time_N, low_N, high_N = (
        np.array(columns[name], np.float64) for name in ("time_s", "time_s_low", "time_s_high")
    )
    return {
        "machine": f"{key}, {'between nodes' if across else 'one node'}",
        "runs": len(rows),
        "median_error": float(np.median(np.abs(time_N / measured_N - 1.0))),
        "inside": float(np.mean((low_N <= measured_N) & (measured_N <= high_N))),
        "width": float(np.median(high_N / low_N)),
        "across": across,
    }


def _with_network(system: str, row: Mapping[str, str], fabric: str | None) -> str:
    changes = [] if fabric is None else [f"fabric={fabric}"]
    if row["nics_per_node"] not in ("", "0"):
        rate = float(row["nic_gbit_s"]) / 8.0
        changes += [f"node.nics={row['nics_per_node']}", f"node.nic_bandwidth={rate:g}GB/s"]
    return f"{system}{{{', '.join(changes)}}}" if changes else system
