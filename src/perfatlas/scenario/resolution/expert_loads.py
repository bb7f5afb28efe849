"""Measured loads of experts from a file: a table, or what SGLang reads as an expert location.

Shape legend: L layers, E experts.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files import is_file, read_table
from perfatlas.operators import MeasuredLoads
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.networks import Network

# Columns by the names in files: of our own, and of the CSV files of SGLang 0.4
COLUMNS: Final = {
    "layer": ("layer", "layer_id"),
    "expert": ("expert", "expert_id"),
    "tokens": ("tokens", "count"),
}
COUNTS: Final = "logical_count"  # of SGLang: layers x experts, or steps x layers x experts


def measured_loads(path: str) -> MeasuredLoads:
    """Return the loads of the experts of each layer in a file.

    Args:
        path: A CSV, JSON Lines or Parquet table with columns layer, expert and tokens, whose rows
            of one expert add up, or a JSON file with `logical_count`.

    Raises:
        InvalidSpecError: The file cannot be read, or is no such table.
    """
    if path.endswith((".pt", ".pth")):
        raise InvalidSpecError(
            f"expert_loads = {path}: files of torch.save are not read; convert it with python -c"
            f' \'import json, torch; d = torch.load("{path}", weights_only=True);'
            f' json.dump({{"{COUNTS}": d["{COUNTS}"].tolist()}}, open("loads.json", "w"))\''
        )
    if not is_file(path):
        raise InvalidSpecError(f"expert_loads = {path}: there is no such file")
    return _read(path, Path(path).stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _read(path: str, _changed: int) -> MeasuredLoads:
    tokens_LE = _of_json(path) if path.endswith(".json") else _of_table(path)
    total_L = tokens_LE.sum(axis=1, keepdims=True)
    if not np.all(np.isfinite(tokens_LE)) or np.any(tokens_LE < 0) or np.any(total_L <= 0):
        raise InvalidSpecError(
            f"expert_loads = {path}: tokens must be 0 or more, and each layer needs some"
        )
    return MeasuredLoads(name=Path(path).name, share_LE=tokens_LE / total_L)


def _of_json(path: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    try:
        counts = np.array(json.loads(Path(path).read_text(encoding="utf-8"))[COUNTS], np.float64)
    except (ValueError, KeyError, TypeError, IndexError) as problem:
        raise InvalidSpecError(
            f"expert_loads = {path}: expected an object with {COUNTS}, a list of layers with"
            " one number for each expert, as in --init-expert-location of SGLang"
        ) from problem
    counts = counts.sum(axis=0) if counts.ndim == 3 else counts
    if counts.ndim != 2:
        raise InvalidSpecError(
            f"expert_loads = {path}: {COUNTS} has {counts.ndim} dimensions; expected layers and"
            " experts, or steps, layers and experts"
        )
    return counts


def _of_table(path: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    columns: Mapping[str, Any] = read_table(path).columns
    found: dict[str, np.ndarray[Any, np.dtype[np.float64]]] = {}
    for name, names in COLUMNS.items():
        column = next((columns[n] for n in names if n in columns), None)
        if column is None:
            raise InvalidSpecError(
                f"expert_loads = {path}: no column {' or '.join(names)}; it has"
                f" {', '.join(columns)}. Needed are {', '.join(COLUMNS)}"
            )
        try:
            found[name] = np.array([float(cell) for cell in column])
        except (TypeError, ValueError) as problem:
            raise InvalidSpecError(
                f"expert_loads = {path}: column {name} has a cell that is no number"
            ) from problem
    expert_N = found["expert"]
    if not expert_N.size or np.any((expert_N < 0) | (expert_N != np.floor(expert_N))):
        raise InvalidSpecError(f"expert_loads = {path}: experts are numbered 0, 1, 2 and so on")
    layers, layer_N = np.unique(found["layer"], return_inverse=True)
    tokens_LE = np.zeros((layers.size, int(expert_N.max()) + 1))
    np.add.at(tokens_LE, (layer_N, expert_N.astype(np.int64)), found["tokens"])
    return tokens_LE


def loads_of_network(loads: MeasuredLoads, network: Network) -> MeasuredLoads:
    """Return the loads of the MoE layers of a network.

    Raises:
        InvalidSpecError: Another number of layers or experts than the network has.
    """
    groups = [group for group in network.layers if group.experts is not None]
    layers = sum(group.count for group in groups)
    experts = {group.experts.num_experts for group in groups if group.experts is not None}
    found_layers, found = loads.share_LE.shape
    if found_layers != layers or experts != {found}:
        counts = " or ".join(f"{count}" for count in sorted(experts))
        raise InvalidSpecError(
            f"expert_loads = {loads.name} has {found_layers} layers of {found} experts, but the"
            f" model has {layers} MoE layers of {counts} experts; give the loads of its layers"
        )
    return loads
