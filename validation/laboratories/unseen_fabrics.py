"""Errors of collectives between nodes on published machines, as shipped data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files import file_hash, format_toml, write_atomic
from perfatlas.quantities import MissingDependencyError, UnsupportedError
from perfatlas.verbs.collective import collective_columns
from validation.runs import missing_data, read_table, shared_folder
from validation.scoring import read_data

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

RULES: Final = "fabric_machines.toml"
OPS: Final = {"alltoall": "all_to_all"}  # names of nccl-tests that differ
DIGITS: Final = 3
HEADER: Final = (
    "# ln(measured/predicted) of published collectives between nodes of machines of no fit:"
    " quantiles by\n"
    "# machine. Exchanges over slower NICs than those of the fits have the least and the largest.\n"
    "# Written by validation.laboratories.write_unseen_fabrics; rules: fabric_machines.toml.\n\n"
)


def fabric_errors() -> list[dict[str, Any]]:
    """Return the quantiles of ln(measured/predicted) of each machine, with its source.

    Raises:
        MissingDependencyError: The file of published runs is missing.
        UnsupportedError: It is not that of the rules.
    """
    rules = read_data(RULES)
    path = shared_folder() / rules["file"]
    if not path.is_file():
        raise MissingDependencyError(missing_data(path))
    if file_hash(path) != f"sha256:{rules['sha256']}":
        raise UnsupportedError(f"{path} is not the file of {RULES}")
    rows: dict[str, list[Mapping[str, str]]] = {}
    for row in read_table(path):
        if row["key"] in rules["systems"] and int(row["nodes"]) > 1:
            rows.setdefault(row["key"], []).append(row)
    found = []
    for key, own in rows.items():
        if len(own) >= rules["fewest"]:
            log_N = _errors(own, rules["systems"][key])
            low, high = (round(float(end), DIGITS) for end in np.quantile(log_N, (0.05, 0.95)))
            machine = f"{own[0]['machine']}, {own[0]['nodes']} nodes"
            ref = own[0]["source"]
            found.append(
                {"machine": machine, "runs": len(own), "q05": low, "q95": high, "ref": ref}
            )
    return found


def _errors(rows: list[Mapping[str, str]], system: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return ln(measured/predicted) of runs of one machine, with the NICs that are stated (N,)."""
    columns = collective_columns(
        {
            "system": [_with_nics(system, row) for row in rows],
            "op": [OPS.get(row["op"], row["op"]) for row in rows],
            "bytes": [float(row["bytes"]) for row in rows],
            "gpus": [int(row["gpus"]) for row in rows],
            "nodes": [int(row["nodes"]) for row in rows],
        }
    )
    measured_N = 1e-6 * np.array([float(row["time_us"]) for row in rows])
    log_N: np.ndarray[Any, np.dtype[np.float64]] = np.log(measured_N / columns["time_s"])
    return log_N


def _with_nics(system: str, row: Mapping[str, str]) -> str:
    """Return a system with the NICs of a row, where it states them."""
    if not row["nics_per_node"]:
        return system
    rate = float(row["nic_gbit_s"]) / 8.0
    return f"{system}{{node.nics={row['nics_per_node']},node.nic_bandwidth={rate:g}GB/s}}"


def write_unseen_fabrics(path: Path) -> None:
    """Write the errors of every machine to a TOML file.

    Args:
        path: The file; `data/collectives/unseen_fabrics.toml` of the package is shipped.
    """
    write_atomic(path, HEADER + format_toml({"machine": fabric_errors()}))
