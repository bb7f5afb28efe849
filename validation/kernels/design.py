"""Pipeline models of kernels against published speeds, each group scored without it in the fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.optimize import minimize

from perfatlas.formats import get_format
from perfatlas.hardware import resolve_system
from perfatlas.machines.gpu import pipeline
from validation.kernels.design_tables import table_scores
from validation.scoring import data_rows

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_FACTOR: Final = 0.95
COVERED: Final = 0.9
FEW_ROWS: Final = 128
MODELLED_ROWS: Final = 512  # from here on the model of Blackwell's GEMM holds
WIDE: Final = 24576  # columns of the shapes of H20 that fit its clock factor
# Kernels that no fit saw, scored with the shipped constants of the forward pass.
GPUS: Final = {"h100_sxm": ("decode H100",), "b200_sxm": ("fa4 backward", "decode SM100")}
Constants = tuple[float, float]  # clock factor, cycles of a tile outside its main loop


@dataclass(frozen=True, kw_only=True)
class Anchor:
    """A published speed."""

    series: str  # Its source as a group
    system: str  # The GPU
    format: str  # Number format
    work: pipeline.AttentionWork | pipeline.GemmWork  # What was computed
    time_s: float  # Its time [s]


@cache
def anchors() -> tuple[Anchor, ...]:
    """Return the published speeds of kernels whose pipeline is modelled."""
    return tuple(_anchor(row) for row in data_rows("kernel_designs.csv"))


def _anchor(row: dict[str, str]) -> Anchor:
    rate = float(row["tflop_per_s"]) * 1e12
    work: pipeline.AttentionWork | pipeline.GemmWork
    if row["operator"].startswith("attention"):
        batch, length, heads, head_dim = (
            int(row[name]) for name in ("batch", "length", "heads", "head_dim")
        )
        causal, decode = row["mask"] == "causal", row["operator"] == "attention_decode"
        backward = row["operator"] == "attention_backward"
        queries = 1 if decode else length
        work = pipeline.AttentionWork(
            batch=batch,
            q_len=queries,
            kv_len=length,
            heads=heads,
            kv_heads=int(row["kv_heads"] or heads),
            head_dim=head_dim,
            causal=causal,
            backward=backward,
            packed=decode,
        )
        products = 5.0 if backward else 2.0
        flop = 2.0 * products * batch * heads * queries * length * head_dim
        flop /= 2.0 if causal else 1.0
    else:
        m, n, k, groups = (int(row[name]) for name in ("m", "n", "k", "groups"))
        work = pipeline.GemmWork(
            m=m,
            n=n,
            k=k,
            groups=groups,
            element_bytes=1.0 if row["format"].startswith("fp8") else 2.0,
            promotes=row["format"] == "fp8_block",
        )
        flop = 2.0 * groups * m * n * k
    return Anchor(
        series=row["series"],
        system=row["system"],
        format=row["format"],
        work=work,
        time_s=flop / rate,
    )


def ratios(rows: list[Anchor], constants: Constants | None = None, system: str = "") -> list[float]:
    """Return predicted over published times.

    Args:
        rows: Published speeds.
        constants: Fitted constants; by default the shipped ones.
        system: GPU to predict for; by default that of each row.
    """
    return [_predicted_s(row, constants, system or row.system) / row.time_s for row in rows]


def _predicted_s(row: Anchor, constants: Constants | None, system: str) -> float:
    device = resolve_system(system).device
    operator = "attention" if isinstance(row.work, pipeline.AttentionWork) else "gemm"
    name = "fp8_static" if row.format == "fp8" else row.format
    family = pipeline.family_of(operator, device, name)
    factor, cycles = constants or (family.factor_of(device), family.tile_cycles)
    silicon = pipeline.kernel_silicon(device, get_format(name).tensor_peak)
    family = replace(family, tile_cycles=cycles)
    return pipeline.design_kernel(row.work, family, silicon, factor).time_s


def fitted(rows: list[Anchor], start: Constants, *, factor_alone: bool = False) -> Constants:
    """Return the constants with the least mean |ln(predicted / published)|.

    Args:
        rows: Published speeds.
        start: Where the search begins.
        factor_alone: Whether the cycles of a tile stay those of the start.
    """

    def constants(logs: np.ndarray[Any, Any]) -> Constants:
        factor = min(start[0] * float(np.exp(logs[0])), MAX_FACTOR)
        return factor, start[1] * (1.0 if factor_alone else float(np.exp(logs[1])))

    def loss(logs: np.ndarray[Any, Any]) -> float:
        return float(np.mean(np.abs(np.log(ratios(rows, constants(logs))))))

    size = 1 if factor_alone else 2
    found = []
    for step in (0.15, -0.15):
        simplex = np.zeros((size + 1, size))
        simplex[1, 0] = step
        simplex[2:, 1:] = 4.0 * step
        options = {"initial_simplex": simplex, "maxfev": 120, "xatol": 2e-3, "fatol": 1e-5}
        found.append(minimize(loss, np.zeros(size), method="Nelder-Mead", options=options))
    return constants(min(found, key=lambda one: one.fun).x)


def _is_part(row: Anchor, part: dict[str, Any]) -> bool:
    return all(getattr(row.work, name) == value for name, value in part.items())


def _few_rows(row: Anchor) -> bool:
    return isinstance(row.work, pipeline.GemmWork) and row.work.m <= FEW_ROWS


def _modelled(row: Anchor) -> bool:
    return isinstance(row.work, pipeline.GemmWork) and row.work.m >= MODELLED_ROWS


def _wide(row: Anchor) -> bool:
    return isinstance(row.work, pipeline.GemmWork) and row.work.n == WIDE


def validate_design() -> dict[str, Any]:
    """Return how well each group of speeds is predicted by constants fitted without it.

    Returns:
        `scores`: by group, the fit, its constants, and the median, mean and largest error;
        `tables`: the same on measured tables, if they are installed, with the shipped constants;
        `shipped`: the constants and half-widths that ship, by family.
    """
    of = {name: [row for row in anchors() if row.series == name] for name in _series()}
    fa3, fa4, dense = of["fa3"], of["fa4"], of["deepgemm"]
    start, gemm_start = (0.65, 800.0), (0.7, 800.0)
    scores = [_score("H100, all head sizes", "fa3", fa3, fitted(fa3, start))]
    parts: dict[str, dict[str, Any]] = {
        **{f"head size {size}": {"head_dim": size} for size in (64, 128, 256)},
        "causal mask": {"causal": True},
        "no mask": {"causal": False},
    }
    for name, part in parts.items():
        unseen = [row for row in fa3 if _is_part(row, part)]
        seen = [row for row in fa3 if row not in unseen]
        scores.append(_score(name, "fa3, others", unseen, fitted(seen, start)))
    shared = fitted(fa3, start)[1]
    b200 = {
        "fa4 B200, factor alone": fitted(fa4, (0.8, shared), factor_alone=True),
        "fa4 B200": fitted(fa4, (0.8, 6000.0)),
    }
    for fit, constants in b200.items():
        scores.append(_score("B200", fit, fa4, constants))
        scores += [
            _score(f"{name} as {system}", fit, rows, constants, system)
            for name, rows in of.items()
            if name.startswith("fa4 2500")
            for system in ("gb300", "b300_sxm")
        ]
    constants = fitted(dense, gemm_start)
    scores.append(_score("DeepGEMM dense", "deepgemm", dense, constants))
    scores += [
        _score(name, "deepgemm", of[name], constants)
        for name in ("deepgemm grouped", "deepgemm H20", "hopper bf16")
    ]
    seen, unseen = _split(of["deepgemm H20"], _wide)
    factor = fitted(seen, constants, factor_alone=True)
    scores.append(_score("deepgemm H20, other n", "H20 n = 24576, factor", unseen, factor))
    seen, unseen = _split(dense, _few_rows)
    scores.append(_score("m = 4096", "deepgemm, m <= 128", unseen, fitted(seen, gemm_start)))
    blackwell = of["blackwell bf16, n 6144"]
    constants = fitted(_split(blackwell, _modelled)[0], (0.75, constants[1]), factor_alone=True)
    scores += [
        _score(name, "blackwell bf16, n 6144", of[name], constants)
        for name in ("blackwell bf16, n 6144", "blackwell bf16, other shapes", "blackwell fp8")
    ]
    scores += [
        _score(
            f"{name}, m >= 512", "blackwell bf16, n 6144", _split(of[name], _modelled)[0], constants
        )
        for name in ("blackwell bf16, n 6144", "blackwell bf16, other shapes", "blackwell fp8")
    ]
    return {
        "scores": [*scores, *_few_rows_scores(of, constants), *_unseen_kernels(of)],
        "tables": table_scores(),
        "shipped": [_shipped(kernel_family) for kernel_family in pipeline.kernel_families()],
    }


def _few_rows_scores(of: dict[str, list[Anchor]], constants: Constants) -> list[dict[str, Any]]:
    """Return the score of products of few rows, which no fit saw."""
    few = [
        row
        for name in ("blackwell bf16, n 6144", "blackwell bf16, other shapes", "blackwell fp8")
        for row in _split(of[name], _modelled)[1]
    ]
    return [_score("blackwell, m < 512", "blackwell bf16, n 6144", few, constants)]


def _unseen_kernels(of: dict[str, list[Anchor]]) -> list[dict[str, Any]]:
    """Return scores of decode and backward kernels with the shipped constants of the forward."""
    shipped = {
        name: pipeline.family_of("attention", resolve_system(name).device, "bf16") for name in GPUS
    }
    return [
        _score(
            name,
            "forward",
            of[name],
            (kernel_family.clock_factor[system], kernel_family.tile_cycles),
        )
        for system, kernel_family in shipped.items()
        for name in GPUS[system]
    ]


def _series() -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.series for row in anchors()))


def _split(rows: list[Anchor], seen: Callable[[Anchor], bool]) -> tuple[list[Anchor], list[Anchor]]:
    return [row for row in rows if seen(row)], [row for row in rows if not seen(row)]


def _score(
    group: str, fit: str, rows: list[Anchor], constants: Constants, system: str = ""
) -> dict[str, Any]:
    errors = np.array(ratios(rows, constants, system)) - 1.0
    return {
        "group": group,
        "fit": fit,
        "rows": len(rows),
        "clock_factor": constants[0],
        "tile_cycles": constants[1],
        "median_error": float(np.median(np.abs(errors))),
        "mean_error": float(np.mean(np.abs(errors))),
        "largest_error": float(np.max(np.abs(errors))),
        "median_ratio": float(np.median(errors)) + 1.0,
        "half_width": float(np.quantile(np.abs(np.log1p(errors)), COVERED)),
    }


def _shipped(family: pipeline.KernelFamily) -> dict[str, Any]:
    return {
        "family": family.name,
        "clock_factor": dict(family.clock_factor),
        "tile_cycles": family.tile_cycles,
        "launch_s": family.launch_s,
        "half_width": dict(family.half_width),
        "evidence": family.evidence,
    }
