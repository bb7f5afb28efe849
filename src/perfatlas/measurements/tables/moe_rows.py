"""Validation of measured MoE rows: whether they hold one rank's share of the experts.

Information that rows lack is inferred from other rows of the table whose work includes theirs, and
from the files of the checkpoints.

Shape legend: U measured rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files import shipped_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray

    Mask = NDArray[np.bool_]
    Columns = Mapping[str, FloatArray]

MOE_MODEL: Final = ("hidden", "intermediate", "experts", "top_k")
LARGE_BATCH: Final = 1024.0  # minimum tokens for which the load outweighs reading weights
POSSIBLE_RATIO: Final = 1.15  # maximum balanced/skewed time explained by noise
UNSHARED: Final = (0.85, 1.15)  # time on more ranks / time on two, if work was not divided
MAX_MODELS: Final = 0.5  # fraction of the models of a table
SLOW_PART: Final = 1.5  # maximum time of a part / time of the whole explained by tuning
GATED: Final = 3.0  # weight matrices: gate, up, down
UNGATED: Final = 2.0  # up, down
MIN_TIME_S: Final = 1e-9


SLOWER_PART: Final = "a part slower than its whole"


def left_out(columns: Columns, measured_s: FloatArray) -> dict[str, Mask]:
    """Return reason -> rows that do not hold one rank's share as stated by their columns (U,).

    A row is counted once, for the first reason that applies.

    Args:
        columns: Columns of an MoE table by name (U,).
        measured_s: Measured times (U,) [s].
    """
    if not measured_s.size:
        return {}
    rejected = {
        "balanced load of a model whose router is not balanced": implausible_rows(
            columns, measured_s
        ),
        "choices of other ranks computed as well": unshared_rows(columns, measured_s),
        SLOWER_PART: slow_parts(columns, measured_s),
    }
    before = np.zeros(measured_s.shape, np.bool_)
    for reason, rows in rejected.items():
        rejected[reason] = rows & ~before
        before |= rows
    return rejected


def implausible_rows(columns: Columns, measured_s: FloatArray) -> Mask:
    """Return the rows labelled balanced that cannot be balanced (U,).

    A balanced load cannot take longer than the busiest rank of a skewed one. If it does for a
    model, for typical large batches on several ranks, all its balanced rows are rejected. With
    vLLM and SGLang, those of DeepSeek-V3 (7168, 2048, 256 experts, top 8) take up to twice as long
    as skewed rows of the same shape on several ranks, and on one rank little more than half of the
    time to read all experts: the router selected among half of them.

    Args:
        columns: Columns of an MoE table by name (U,).
        measured_s: Measured times (U,) [s].
    """
    balanced = columns["skew"] == 0.0
    model = _group(columns, MOE_MODEL)
    shape = _group(columns, (*MOE_MODEL, "tokens", "ep", "moe_tp"))
    skewed_s = np.zeros(int(shape.max()) + 1)
    skewed = columns["skew"] > 0.0
    np.maximum.at(skewed_s, shape[skewed], measured_s[skewed])
    compared = balanced & (columns["ep"] > 1.0) & (columns["tokens"] >= LARGE_BATCH)
    compared &= skewed_s[shape] > 0.0
    ratio = measured_s / np.maximum(skewed_s[shape], MIN_TIME_S)
    implausible = np.zeros(balanced.shape, np.bool_)
    for network in np.unique(model[compared]):
        if np.median(ratio[compared & (model == network)]) > POSSIBLE_RATIO:
            implausible |= balanced & (model == network)
    return implausible


def unshared_rows(columns: Columns, measured_s: FloatArray) -> Mask:
    """Return the rows on several ranks that include the work of other ranks (U,).

    One rank of eight has a quarter of the experts of one of two, so it is faster for large batches.
    If neither four nor eight ranks are faster than two, for some load of a model, its rows on
    several ranks are excluded; those of all models, if this holds for most. The collectors had
    replaced experts of other ranks by a local expert (ai-dynamo/aiconfigurator,
    collector/sglang/collect_moe.py).

    Args:
        columns: Columns of an MoE table by name (U,).
        measured_s: Measured times (U,) [s].
    """
    model = _group(columns, MOE_MODEL)
    load = _group(columns, (*MOE_MODEL, "skew"))
    batch = _group(columns, (*MOE_MODEL, "skew", "tokens"))
    wide = (columns["moe_tp"] == 1.0) & (columns["tokens"] >= LARGE_BATCH)
    of_two_s = np.zeros(int(batch.max()) + 1)
    on_two = wide & (columns["ep"] == 2.0)
    of_two_s[batch[on_two]] = measured_s[on_two]
    low, high = UNSHARED
    alike = np.ones(int(model.max()) + 1, np.bool_)
    for ranks in (4.0, 8.0):
        largest = np.zeros(alike.size)
        compared = wide & (columns["ep"] == ranks) & (of_two_s[batch] > 0.0)
        for group in np.unique(load[compared]):
            rows = compared & (load == group)
            ratio = float(np.median(measured_s[rows] / of_two_s[batch[rows]]))
            network = model[rows][0]
            largest[network] = max(largest[network], ratio)
        alike &= (largest > low) & (largest < high)
    if np.mean(alike) > MAX_MODELS:
        alike[:] = True
    unshared: Mask = alike[model] & (columns["ep"] > 1.0)
    return unshared


def slow_parts(columns: Columns, measured_s: FloatArray) -> Mask:
    """Return the rows that took longer than a row whose work includes theirs (U,).

    With fewer ranks or a coarser split of the experts, a rank has the experts and rows of this one
    and more. If that was faster by more than SLOW_PART, the kernel of this row was badly tuned,
    which happens at random (10% of TensorRT-LLM's bf16 and fp8 rows on Hopper).

    Args:
        columns: Columns of an MoE table by name (U,).
        measured_s: Measured times (U,) [s].
    """
    batch = _group(columns, (*MOE_MODEL, "tokens", "skew"))
    order = np.argsort(batch, kind="stable")
    best_s = np.full(measured_s.shape, np.inf)
    for rows in np.split(order, np.flatnonzero(np.diff(batch[order])) + 1):
        ep, moe_tp = columns["ep"][rows], columns["moe_tp"][rows]
        contains = (ep[None, :] <= ep[:, None]) & (moe_tp[None, :] <= moe_tp[:, None])
        np.fill_diagonal(contains, val=False)
        best_s[rows] = np.min(np.where(contains, measured_s[rows][None, :], np.inf), axis=1)
    slow: Mask = measured_s > SLOW_PART * best_s
    return slow


def matrices_per_expert(columns: Columns, kernel: str, version: str) -> FloatArray:
    """Return the number of weight matrices per expert, which the tables do not contain (U,).

    Three with a gate, two without. The networks without a gate, and the collectors that measured
    them with one, are listed with sources in data/ungated_experts.toml; measured times are not
    used.

    Args:
        columns: Columns of an MoE table by name (U,).

    Example:
        >>> import numpy as np
        >>> from perfatlas.measurements.tables.moe_rows import matrices_per_expert
        >>> sizes = {"hidden": 2048.0, "intermediate": 5120.0, "experts": 512.0, "top_k": 22.0}
        >>> network = {name: np.array([size]) for name, size in sizes.items()}
        >>> matrices_per_expert(network, "vllm_modeloptfp8moe_triton_tritonexperts", "0.24.0")
        array([2.])
        >>> matrices_per_expert(network, "vllm_fused_moe", "0.22.0")
        array([3.])
    """
    matrices = np.full(columns["hidden"].shape, GATED)
    for network in shipped_table("data/ungated_experts.toml")["network"]:
        model = network["model"]
        if not any(
            kernel in rule["kernels"]
            and version in rule.get("versions", (version,))
            and model in rule.get("models", (model,))
            for rule in shipped_table("data/ungated_experts.toml")["measured_gated"]
        ):
            is_network = np.isin(columns["hidden"], network["hidden"])
            for name in MOE_MODEL[1:]:
                is_network &= columns[name] == network[name]
            matrices[is_network] = UNGATED
    return matrices


def _group(columns: Columns, names: tuple[str, ...]) -> NDArray[Any]:
    """Return a group number per row; rows with equal named columns share a group (U,).

    Works column by column, as numpy sorts numbers much faster than rows.
    """
    number = np.zeros(columns[names[0]].shape, np.int64)
    for name in names:
        values, code = np.unique(columns[name], return_inverse=True)
        number = np.unique(number * values.size + code.reshape(-1), return_inverse=True)[1]
    return number
