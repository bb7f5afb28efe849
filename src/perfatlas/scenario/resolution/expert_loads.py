"""Measured loads of experts from a file: a table, or what SGLang reads as an expert location.

Shape legend: L layers, E experts, N rows of a table.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files import check_regular, exists, read_table
from perfatlas.operators import MeasuredLoads
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.networks import Network
    from perfatlas.operators import FloatArray

# Columns by the names in files: of our own, and of the CSV files of SGLang 0.4
COLUMNS: Final = {
    "layer": ("layer", "layer_id"),
    "expert": ("expert", "expert_id"),
    "tokens": ("tokens", "count"),
}
ROUNDED_SHARE: Final = 0.01  # by which a share may exceed its limit: tables hold rounded numbers
COUNTS: Final = "logical_count"  # of SGLang: layers x experts, or steps x layers x experts


def measured_loads(path: str, network: Network) -> MeasuredLoads:
    """Return the loads of the experts of each MoE layer of a network, from a file.

    Args:
        path: A CSV, JSON Lines or Parquet table with columns layer, expert and tokens, whose rows
            of one expert add up and whose missing rows are 0, or a JSON file with `logical_count`.
        network: The network, whose layers all have the same number of experts.

    Raises:
        InvalidSpecError: The file cannot be read, is no such table, or cannot be of this network:
            it has other layers, more experts, or an expert with more rows than there are tokens.
    """
    if path.endswith((".pt", ".pth")):
        raise InvalidSpecError(
            f"expert_loads = {path}: files of torch.save are not read; convert it with python -c"
            f' \'import json, torch; d = torch.load("{path}", weights_only=True);'
            f' json.dump({{"{COUNTS}": d["{COUNTS}"].tolist()}}, open("loads.json", "w"))\''
        )
    check_regular(path, "expert_loads file")
    if not exists(path):
        raise InvalidSpecError(f"expert_loads = {path}: there is no such file")
    groups = [(group.experts, group.count) for group in network.layers if group.experts is not None]
    experts = {layer.num_experts for layer, _ in groups}
    if len(experts) != 1:
        raise InvalidSpecError(
            f"expert_loads = {path}: MoE layers must all have the same number of experts; those of"
            f" this model have {' or '.join(map(str, sorted(experts))) or 'none'}"
        )
    top_k_L = tuple(layer.top_k for layer, count in groups for _ in range(count))
    return _read(path, Path(path).stat().st_mtime_ns, top_k_L, experts.pop())


@lru_cache(maxsize=8)
def _read(path: str, _changed: int, top_k_L: tuple[int, ...], experts: int) -> MeasuredLoads:
    reads = _of_json if path.endswith(".json") else _of_table
    layer_L, tokens_LE = reads(path, (len(top_k_L), experts))
    total_L = tokens_LE.sum(axis=1, keepdims=True)
    if not np.all(np.isfinite(total_L)) or np.any(tokens_LE < 0) or np.any(total_L <= 0):
        raise InvalidSpecError(
            f"expert_loads = {path}: tokens must be 0 or more, and each layer needs some"
        )
    share_LE = tokens_LE / total_L
    excess_LE = share_LE * np.array(top_k_L)[:, None]
    layer, expert = np.unravel_index(np.argmax(excess_LE), excess_LE.shape)
    if excess_LE[layer, expert] > 1.0 + ROUNDED_SHARE:
        raise InvalidSpecError(
            f"expert_loads = {path}: expert {expert} gets {share_LE[layer, expert]:.1%} of the rows"
            f" of layer {layer_L[layer]:g}, but a token chooses {top_k_L[layer]} different experts,"
            f" so that no expert gets more than {1.0 / top_k_L[layer]:.1%}; give the tokens of"
            " each expert"
        )
    return MeasuredLoads(name=Path(path).name, share_LE=share_LE)


def _check_sizes(path: str, found: tuple[int, int], sizes: tuple[int, int]) -> None:
    """Refuse other layers or more experts than a model has, before a table of them is made."""
    if found[0] != sizes[0] or found[1] > sizes[1]:
        raise InvalidSpecError(
            f"expert_loads = {path} has {found[0]:,} layers of {found[1]:,} experts, but the model"
            f" has {sizes[0]} MoE layers of {sizes[1]} experts; give the loads of its layers"
        )


def _of_json(path: str, sizes: tuple[int, int]) -> tuple[FloatArray, FloatArray]:
    try:
        counts = np.array(json.loads(Path(path).read_text(encoding="utf-8"))[COUNTS], np.float64)
    except (ValueError, KeyError, TypeError, IndexError, OverflowError) as problem:
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
    _check_sizes(path, counts.shape, sizes)
    layer_L = np.arange(sizes[0], dtype=np.float64)
    return layer_L, np.pad(counts, ((0, 0), (0, sizes[1] - counts.shape[1])))


def _of_table(path: str, sizes: tuple[int, int]) -> tuple[FloatArray, FloatArray]:
    columns: Mapping[str, Any] = read_table(path).columns
    found: dict[str, FloatArray] = {}
    for name, names in COLUMNS.items():
        column = next((columns[n] for n in names if n in columns), None)
        if column is None:
            raise InvalidSpecError(
                f"expert_loads = {path}: no column {' or '.join(names)}; it has"
                f" {', '.join(columns)}. Needed are {', '.join(COLUMNS)}"
            )
        try:
            found[name] = np.array([float(cell) for cell in column])
        except (TypeError, ValueError, OverflowError) as problem:
            raise InvalidSpecError(
                f"expert_loads = {path}: column {name} has a cell that is no number"
            ) from problem
    for name in ("layer", "expert"):
        whole_N = np.isfinite(found[name]) & (found[name] == np.floor(found[name]))
        if not whole_N.size or not np.all(whole_N & (found[name] >= 0.0)):
            raise InvalidSpecError(f"expert_loads = {path}: {name}s are numbered 0, 1, 2 and so on")
    layer_L, layer_N = np.unique(found["layer"], return_inverse=True)
    _check_sizes(path, (layer_L.size, int(found["expert"].max()) + 1), sizes)
    tokens_LE = np.zeros(sizes)
    np.add.at(tokens_LE, (layer_N, found["expert"].astype(np.int64)), found["tokens"])
    return layer_L, tokens_LE
