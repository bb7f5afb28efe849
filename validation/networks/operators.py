"""Measured times of single operators beside predicted ones.

`benchmarks/gpu_operators.py` measured them. Operators on rows are asked of `kernel op`, others of a
graph with one operator, at the same rates. The rates of `graph_kernels` of engine pytorch are
medians of the rows of H100; those of H200 are fitted to nothing.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import perfatlas
from perfatlas.networks.graphs import Node, graph_text
from perfatlas.quantities import Expression
from validation.networks.published import EAGER_ENGINES, MEASUREMENTS
from validation.runs.shared_data import read_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.operators import FloatArray

KINDS: Final[Mapping[str, str]] = {
    "gelu": "activation",
    "add": "add",
    "max_pool": "pool",
    "upsample": "resize",
    "conv": "conv",
    "attention": "attention",
}
# Operators of `kernel op`: their name there, with fields besides their sizes.
VERBS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "softmax": ("softmax", {}),
    "embedding": ("embedding", {}),
    "embedding_bag": ("embedding", {}),
    "residual_layer_norm": ("norm", {"kind": "layer"}),
    **{
        f"{kind}_norm": ("norm", {"kind": kind, **alone})
        for kind, alone in (("layer", {"residual": "excluded"}), ("group", {}), ("batch", {}))
    },
}
FLASH_ENGINE: Final = "pytorch@2.8"  # which chooses FlashAttention-2


def operator_errors() -> list[dict[str, Any]]:
    """Return errors of time by GPU and operator; convolutions and attention also by variant."""
    groups: dict[tuple[str, str], list[FloatArray]] = defaultdict(list)
    for table in sorted(MEASUREMENTS.glob("*/*_*/operators.csv")):
        device = table.parts[-3]
        for row in read_table(table):
            if row["operator"] in KINDS or row["operator"] in VERBS:
                predicted_s = np.array(_predicted(row, device))
                groups[device, _variant(row)].append(predicted_s / float(row["time_s"]) - 1.0)
    return [
        {
            "gpu": gpu,
            "operator": operator,
            "rows": len(errors),
            "median": float(np.median(np.abs(errors), axis=0)[0]),
            "p90": float(np.quantile(np.abs(errors)[:, 0], 0.9)),
            "bias": float(np.median(np.log1p(errors), axis=0)[0]),
            "roofline": float(np.median(np.abs(errors), axis=0)[1]),
        }
        for (gpu, operator), errors in sorted(groups.items())
    ]


def _is_depthwise(row: Mapping[str, str]) -> bool:
    return row["groups"] == row["channels"]


def _engine(row: Mapping[str, str]) -> str:
    if row["operator"] == "attention":
        return FLASH_ENGINE if row["backend"] == "flash" else EAGER_ENGINES[0]
    return EAGER_ENGINES[row["layout"] == "nhwc"]


def _variant(row: Mapping[str, str]) -> str:
    if row["operator"] == "conv":
        return f"{'depthwise ' * _is_depthwise(row)}conv, {row['layout']}"
    return f"{row['operator']} {row.get('backend', '')}".strip()


def _node(row: Mapping[str, str]) -> Node:
    """Return an operator of the benchmark."""
    size = {name: int(value) for name, value in row.items() if value.isdigit()}
    kind, sizes = KINDS[row["operator"]], {}
    if kind == "attention":
        sizes = {"sequences": size["batch"], "q_len": size["tokens"], "kv_len": size["tokens"]}
        sizes |= {name: size[name] for name in ("num_heads", "head_dim")}
    elif row.get("channels"):
        read = size["batch"] * size["channels"] * size["height"] ** 2
        sizes = {"read": read}
        if kind == "pool":
            sizes["write"] = read // 4
        elif kind == "resize":
            sizes["write"] = 4 * read
    else:
        write = size["tokens"] * size["width"]
        sizes = {"read": 2 * write if kind == "add" else write, "write": write}
    if kind == "conv":
        outputs = size["batch"] * (size["height"] // size["stride"]) ** 2
        groups, taps = size["groups"], size["kernel"] ** 2
        if _is_depthwise(row):
            kind = "depthwise_conv"
            sizes |= {"write": outputs * size["filters"], "taps": taps}
        else:
            k = size["channels"] // groups * taps
            sizes |= {"m": outputs, "n": size["filters"] // groups, "k": k, "groups": groups}
    expressions = {name: Expression(str(value)) for name, value in sizes.items()}
    return Node(kind=kind, sizes=expressions, count=Expression("1"))


def _predicted(row: Mapping[str, str], device: str) -> tuple[float, float]:
    """Return time and roofline of an operator [s]."""
    if row["operator"] not in VERBS:
        return _in_graph(_node(row), device, _engine(row))
    size = {name: int(value) for name, value in row.items() if value.isdigit()}
    sizes: dict[str, int] = {
        name: size[name] for name in ("tokens", "width", "ids", "rows") if name in size
    }
    if row.get("channels"):  # of images
        sizes = {"tokens": size["batch"] * size["height"] ** 2, "width": size["channels"]}
        if row["operator"] == "group_norm":
            sizes["batch"] = size["batch"]
    name, fields = VERBS[row["operator"]]
    found = perfatlas.kernel_op(name, system=device, **sizes, **fields).results
    return float(found["time_s"]), float(found["bound_time_s"])


def _in_graph(node: Node, device: str, engine: str) -> tuple[float, float]:
    """Return time and roofline of a graph of one operator, with conversions around it [s]."""
    head = {"name": "operator", "item": "pass", "parameters": 1}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "operator.toml"
        path.write_text(graph_text(head, [node]), encoding="utf-8")
        answer = perfatlas.estimate(model=str(path), system=device, engine=engine, batch=1)
    rows = [row for row in answer.breakdown if row["stream"] == "compute"]  # without the host
    return sum(row["time_s"] for row in rows), sum(row["bound_time_s"] for row in rows)
