"""Shipped configurations and measured times of experts beside predicted ones.

Shape legend: D designs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.formats import get_format
from perfatlas.hardware import resolve_system
from perfatlas.lab import tune
from perfatlas.quantities import PerfatlasError
from validation.runs.shared_data import read_table, shared_folder
from validation.scoring import read_data

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

TABLE: Final = "kernel_tuning.csv.gz"
TIMES: Final = "kernel_errors_measured.csv"
FITTED: Final = (
    "a100_sxm",
    "h100_sxm",
    "mi300x",
)  # devices of the fit, the last with half of its shapes
FORMATS: Final = {
    ("bf16", ""): "bf16",
    ("fp8_w8a8", ""): "fp8_static",
    ("fp8_w8a8", "128x128"): "fp8_block",
}
MOST_TOKENS: Final = 16_384
NEAR: Final = 1.05
NOISE: Final = 0.03  # of the logarithm of a time with which an engine's tuner compares designs
SIZES: Final = ("bm", "bn", "bk", "group", "warps", "stages")


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A configuration that an engine ships."""

    device: str
    number_format: str
    experts: int
    intermediate: int
    tokens: int
    design: Mapping[str, int]


def shipped_choices() -> list[Choice]:
    """Return the configurations of experts in bf16 and fp8 of devices in the catalog.

    Copies, of another engine or release, count once. Blocks of 128 limit the depth of a step to
    128, whatever a file says (invoke_fused_moe_kernel).
    """
    found: dict[Choice, None] = {}
    for row in read_table(shared_folder() / TABLE):
        name = FORMATS.get((row["dtype"], row["block"]))
        if row["kernel"] != "fused_moe" or name is None or int(row["M"]) > MOST_TOKENS:
            continue
        sizes = row["config"].split(",")
        if len(sizes) < len(SIZES) or not all(sizes):
            continue
        design = dict(zip(SIZES, map(int, sizes), strict=False))
        if name == "fp8_block":
            design["bk"] = min(design["bk"], 128)
        found[
            Choice(
                device=row["device"],
                number_format=name,
                experts=int(row["E"]),
                intermediate=int(row["N"]),
                tokens=int(row["M"]),
                design=_Frozen(design),
            )
        ] = None
    return [one for one in found if _chip(one.device, one.number_format) is not None]


class _Frozen(dict[str, int]):
    """A design that can be a key."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))


@cache
def _chip(device: str, number_format: str) -> tune.Chip | None:
    try:
        return tune.chip_of(resolve_system(device).device, get_format(number_format))
    except PerfatlasError:
        return None


def _model(experts: int, intermediate: int) -> tuple[int, int]:
    """Return hidden size and experts of a token of the model that has such experts."""
    table = read_data("tuned_models.toml")
    for row in table["models"]:
        if row["experts"] == experts and row["intermediate"] % intermediate == 0:
            return row["hidden"], row["top_k"]
    return table["other"]["hidden"], table["other"]["top_k"]


def priced(
    device: str,
    number_format: str,
    shape: Mapping[str, float],
    loop: dict[str, float] | None = None,
    also: Sequence[Mapping[str, int]] = (),
) -> Any:  # noqa: ANN401 - PricedDesigns
    """Return all designs of a layer of experts with their times."""
    kind = get_format(number_format)
    chip = tune.chip_of(resolve_system(device).device, kind, loop)
    work = tune.expert_layer(
        tokens=shape["tokens"],
        hidden=int(shape["hidden"]),
        intermediate=int(shape["intermediate"]),
        experts=int(shape["experts"]),
        top_k=shape["top_k"],
        number_format=kind,
        chip=chip,
    )
    return tune.price_designs(work, chip, also)


def _priced_choice(choice: Choice, loop: dict[str, float] | None = None) -> tuple[Any, int, int]:
    """Return designs, the place of the shipped one, and that of the default."""
    hidden, top_k = _model(choice.experts, choice.intermediate)
    shape = {
        "tokens": choice.tokens,
        "hidden": hidden,
        "intermediate": choice.intermediate,
        "experts": choice.experts,
        "top_k": top_k,
    }
    rule = tune.vllm_experts(
        choice.tokens,
        choice.experts,
        fp8=choice.number_format != "bf16",
        block_scaled=choice.number_format == "fp8_block",
    )
    found = priced(choice.device, choice.number_format, shape, loop, [choice.design, rule])
    return found, found.designs.find(choice.design), found.designs.find(rule)


def choice_scores(choices: Iterable[Choice]) -> list[dict[str, Any]]:
    """Return, by device and format, how the predicted time of shipped designs compares."""
    rows: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for choice in choices:
        found, own, rule = _priced_choice(choice)
        time_s_D = found.times.time_s_D
        legal_D = found.legal_D
        best = time_s_D[legal_D].min()
        rows.setdefault((choice.device, choice.number_format), []).append(
            (
                time_s_D[own] / best,
                float(np.mean(time_s_D[legal_D] <= NEAR * best)),
                float(np.mean(time_s_D[legal_D] < time_s_D[own])),
                time_s_D[rule] / time_s_D[own] if np.isfinite(time_s_D[own]) else 0.0,
                time_s_D[rule] / best,
            )
        )
    scores = []
    for (device, kind), found_rows in sorted(rows.items()):
        values = np.array(found_rows)
        scores.append(
            {
                "device": device,
                "format": kind,
                "left_out": device not in FITTED,
                "keys": len(values),
                "within_5": float(np.mean(values[:, 0] <= NEAR)),
                "designs_within_5": float(np.mean(values[:, 1])),
                "median_ratio": float(np.median(values[:, 0])),
                "median_rank": float(np.median(values[:, 2])),
                "better_than_default": float(np.mean(values[:, 3] >= 1.0)),
                "default_ratio": float(np.median(values[:, 4])),
            }
        )
    return scores


def measured_layers() -> list[dict[str, Any]]:
    """Return measured times of layers of experts in Triton beside predicted ones.

    Rows without a known tile are left out: older defaults, launch-bound rows (their note says so).
    """
    names = {
        "H100 SXM": "h100_sxm",
        "H200": "h200_sxm",
        "H20-3e": "h20{device.memory.bandwidth=4.8TB/s}",
        "B200": "b200_sxm",
    }
    names |= {"A100 PCIe": "a100_pcie"}
    found = []
    for row in read_table(shared_folder() / TIMES):
        device, text = names.get(row["gpu"]), row["setting"]
        known = text.startswith(("default", "tuned", "untuned, tile"))
        if row["topic"] != "moe_fp8" or row["metric"] != "time" or not device or not known:
            continue
        if "launch bound" in row["notes"] or not row["M"].isdigit():
            continue
        blocks, fp8 = "block" in row["dtype"], "fp8" in row["dtype"]
        kind = "fp8_block" if blocks else "fp8_static" if fp8 else "bf16"
        shape = {
            "tokens": float(row["M"]),
            "hidden": float(row["hidden"]),
            "intermediate": float(row["N"]),
            "experts": float(row["E"]),
            "top_k": float(row["topk"]),
        }
        design = None
        if text.startswith("default"):
            design = tune.vllm_experts(
                shape["tokens"], int(shape["experts"]), fp8=fp8, block_scaled=blocks
            )
        if text.startswith("untuned, tile"):
            sizes = dict(
                zip(("bm", "bn", "bk"), map(int, text.split()[-1].split("x")), strict=True)
            )
            design = sizes | {"group": 1, "warps": 4, "stages": 3}
        found.append(
            {
                "device": device,
                "format": kind,
                "shape": shape,
                "design": design,
                "source": row["source"],
                "setting": text.split(",")[0],
                "measured_s": float(row["value"]) * 1e-6,
            }
        )
    return found


def layer_time_s(row: Mapping[str, Any], loop: dict[str, float] | None = None) -> float:
    """Return the predicted time of a measured layer: of its design, or of the best one [s]."""
    also = [] if row["design"] is None else [row["design"]]
    found = priced(row["device"], row["format"], row["shape"], loop, also)
    if row["design"] is None:
        return float(found.times.time_s_D.min())
    return float(found.times.time_s_D[found.designs.find(row["design"])])


def fit_loop(
    names: Sequence[str], choices: Sequence[Choice], layers: Sequence[Any]
) -> dict[str, float]:
    """Return constants of main loops under which shipped designs are most likely the fastest.

    The probability of a design falls with its predicted time, with the noise of a measurement, but
    one choice in ten is arbitrary. Measured times of layers anchor the scale.

    Args:
        names: Constants that are fitted; the others stay.
        choices: Shipped designs.
        layers: Measured layers.
    """
    from scipy.optimize import minimize

    chip = _chip(choices[0].device, "bf16")
    start = dict(chip.loop) if chip else tune.constants()

    def loss(logs: NDArray[np.float64]) -> float:
        loop = start | dict(zip(names, np.exp(logs).tolist(), strict=True))
        total = 0.0
        for choice in choices:
            found, own, _ = _priced_choice(choice, loop)
            time_s_D = found.times.time_s_D
            if not found.legal_D[own]:
                total += 8.0
                continue
            utility_D = -np.log(time_s_D[found.legal_D]) / NOISE
            most = utility_D.max()
            chosen = -math.log(time_s_D[own]) / NOISE - most
            likely = chosen - math.log(np.exp(utility_D - most).sum())
            total -= np.logaddexp(math.log(0.9) + likely, math.log(0.1 / found.legal_D.sum()))
        total /= len(choices)
        errors = [abs(math.log(layer_time_s(row, loop) / row["measured_s"])) for row in layers]
        total += 8.0 * float(np.mean(np.minimum(errors, 0.7) ** 1.5)) if layers else 0.0
        drift = logs - np.log([start[name] for name in names])
        return float(total + 0.05 * (drift**2).sum())

    found = minimize(
        loss,
        np.log([start[name] for name in names]),
        method="L-BFGS-B",
        options={"maxiter": 15, "maxfun": 25 * len(names)},
    )
    return dict(zip(names, np.exp(found.x).tolist(), strict=True))


def fit_rank_error(choices: Sequence[Choice]) -> dict[str, float]:
    """Return the errors of predicted times under which shipped tiles are most likely the best."""
    best = (-math.inf, {"tile": 0.0, "within": 0.0})
    rng = np.random.default_rng(0)
    lists = []
    for choice in choices:
        found, own, _ = _priced_choice(choice)
        if not found.legal_D[own]:
            continue
        classes = tune.tile_classes(found.designs)
        legal = np.flatnonzero(found.legal_D)
        names, of_class = np.unique(classes[legal], return_inverse=True)
        shipped = int(np.searchsorted(names, classes[own]))
        lists.append((np.log(found.times.time_s_D[legal]), of_class, len(names), shipped))
    for tile in (0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2):
        for within in (0.01, 0.02, 0.04):
            total = 0.0
            for logs, of_class, count, shipped in lists:
                true = logs + rng.normal(0, tile, (200, count))[:, of_class]
                true += rng.normal(0, within, true.shape)
                hits = np.mean(of_class[true.argmin(1)] == shipped)
                total += math.log(0.9 * hits + 0.1 / count)
            best = max(best, (total, {"tile": tile, "within": within}), key=lambda pair: pair[0])
    return best[1]


# Constants that are fitted; the others are stated in data/tuning.toml
OF_LOOPS: Final = (
    *("sync_cycles", "warp_cycles", "latency_s", "tile_cycles", "l2_efficiency", "row_bytes"),
    "overlap_power",
)
OF_NVIDIA: Final = (
    *("conversions_per_cycle", "promotion", "memory_efficiency", "store_bytes_per_cycle"),
)
FEWEST: Final = 160  # shipped designs of a fit, spread over all


def fitted_constants() -> list[dict[str, Any]]:
    """Return constants of main loops fitted again, by vendor, and errors between designs."""
    choices = shipped_choices()
    layers = [row for row in measured_layers() if (row["device"], row["source"]) in ANCHORS]
    nvidia = [one for one in choices if one.device in ("a100_sxm", "h100_sxm")]
    half = [
        one for one in choices if one.device == "mi300x" and (one.experts + one.intermediate) % 3
    ]
    found = {
        "nvidia": fit_loop((*OF_LOOPS, *OF_NVIDIA), nvidia[:: len(nvidia) // FEWEST], layers),
        "amd": fit_loop(OF_LOOPS, half[:: max(1, len(half) // FEWEST)], []),
        "rank error": fit_rank_error(nvidia[:: len(nvidia) // FEWEST]),
    }
    return [
        {"of": of, "constant": name, "value": value}
        for of, values in found.items()
        for name, value in values.items()
    ]


WINNERS: Final = {"gemm_bf16": "bf16", "gemm_fp8_block": "fp8_block", "gemm_rowwise": "fp8_static"}
AMD: Final = {"mi300x": "mi300x", "mi355x_or_mi350x": "mi355x"}
MOST_WINNERS: Final = 240  # of a kernel and device


def winner_scores() -> list[dict[str, Any]]:
    """Return, by kernel and device, times and tiles of AITER's winners beside predicted ones.

    Its libraries are not Triton, so that a predicted time is that of a Triton kernel as good.
    """
    groups: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in read_table(shared_folder() / TABLE):
        if row["kernel"] in WINNERS and row["device"] in AMD:
            groups.setdefault((row["kernel"], row["device"]), []).append(row)
    scores = []
    for (kernel, device), rows in sorted(groups.items()):
        ratios, ranks = [], []
        for row in rows[:: max(1, len(rows) // MOST_WINNERS)]:
            question = tune.Question(
                kernel="gemm",
                device=resolve_system(AMD[device]).device,
                number_format=get_format(WINNERS[kernel]),
                shape={"m": int(row["M"]), "n": int(row["N"]), "k": int(row["K"])},
            )
            found = tune.tune(question, compiles=False)
            times, designs = found.priced.times.time_s_D, found.priced.designs
            ratios.append(times[found.order[0]] / (float(row["time_us"]) * 1e-6))
            tile = dict(part.split("=") for part in row["config"].split(";") if "=" in part)
            same = (designs["bm"] == float(tile.get("BM", 0))) & (
                designs["bn"] == float(tile.get("BN", 0))
            )
            if np.isfinite(times[same]).any():
                kept = [designs.row(place) for place in found.selection.kept]
                shipped = (int(tile["BM"]), int(tile["BN"]))
                ranks.append(shipped in [(one["bm"], one["bn"]) for one in kept])
        logs = np.log(ratios)
        scores.append(
            {
                "kernel": kernel,
                "device": device,
                "rows": len(ratios),
                "median_ratio": float(np.exp(np.median(logs))),
                "median_error": float(np.median(np.abs(np.expm1(logs)))),
                "inside": float(np.mean(np.abs(logs) <= tune.half_width("gemm"))),
                "tiles": len(ranks),
                "tile_kept": float(np.mean(ranks)) if ranks else None,
            }
        )
    return scores


EXHAUSTIVE: Final = {
    "conv2d_15x15_4096_fp32": ("A100", "A4000", "MI250X", "W6600"),
    "xgemm_clblast_4096_fp32": ("RTX 2080 Ti", "RTX 3060 laptop", "RTX Titan"),
}
WORST: Final = 2.5  # ln(time / best) beyond which a design of another device is just bad
RANDOM_DRAWS: Final = 200
BUDGETS: Final = (16, 50)


def _measured_in_turn(
    prior_D: NDArray[np.float64],
    sizes_DS: NDArray[np.float64],
    time_D: NDArray[np.float64],
    budget: int,
) -> list[int]:
    """Return the designs that a search with a budget of measurements takes."""
    search = tune.MeasuredSearch(log_time_D=prior_D, sizes_DS=sizes_DS, spread=0.3)
    first = np.argsort(prior_D, kind="stable")[:4].tolist()
    seconds = (time_D * 1e-6).tolist()
    tune.search_measured(search, first, seconds.__getitem__, lambda: len(search.places) < budget)
    return search.places


def exhaustive_scores() -> list[dict[str, Any]]:
    """Return, by device left out, the regret of designs chosen by the times of other devices.

    Kernels without tensor cores, which no loop model of perfatlas describes: the mean of ln(time /
    best) of the other devices takes the place of predicted times. `searched` measures designs one
    after the other, as `kernel tune --budget-s` does, with a wider spread.
    """
    tables: dict[tuple[str, str], dict[str, float]] = {}
    for row in read_table(shared_folder() / TABLE):
        if row["kernel"] in EXHAUSTIVE and row["kind"] == "candidate":
            own = tables.setdefault((row["kernel"], row["device"]), {})
            own[row["config"]] = float(row["time_us"])
    scores = []
    for (kernel, device), own in sorted(tables.items()):
        names, time_D = list(own), np.array(list(own.values()))
        others = [tables[kernel, one] for one in EXHAUSTIVE[kernel] if one != device]
        logs = [
            {name: min(math.log(us / min(one.values())), WORST) for name, us in one.items()}
            for one in others
        ]
        known = [[one[name] for one in logs if name in one] for name in names]
        middle = float(np.median([np.mean(values) for values in known if values]))
        prior_D = np.array([np.mean(values) if values else middle for values in known])
        order, best = np.argsort(prior_D, kind="stable"), time_D.min()
        rng = np.random.default_rng(0)
        drawn = [
            time_D[rng.choice(len(time_D), 16, replace=False)].min() for _ in range(RANDOM_DRAWS)
        ]
        score: dict[str, Any] = {"kernel": kernel, "device": device, "designs": len(names)}
        score |= {f"first_{n}": float(time_D[order[:n]].min() / best - 1) for n in (1, 8, 16)}
        score["random_16"] = float(np.mean(drawn) / best - 1)
        sizes_DS = np.log2(1 + np.array([[float(x) for x in name.split(",")] for name in names]))
        for budget in BUDGETS:
            places = _measured_in_turn(prior_D, sizes_DS, time_D, budget)
            score[f"searched_{budget}"] = float(time_D[places].min() / best - 1)
        scores.append(score)
    return scores


# Layers whose times the fit saw
ANCHORS: Final = (
    ("h100_sxm", "vllm-project/vllm #24700"),
    ("a100_pcie", "vllm-project/vllm #55511"),
)


def own_kernel_scores() -> list[dict[str, Any]]:
    """Return the predicted times of kernels of perfatlas that were measured, of no fit."""
    table = read_data("own_kernels.toml")
    device = resolve_system(table["device"]).device
    scores = []
    for row in table["kernel"]:
        question = tune.Question(
            kernel=row["kernel"],
            device=device,
            number_format=get_format("bf16"),
            shape=row["shape"],
        )
        ratio = tune.design_time_s(question, row["design"]) / row["time_s"]
        scores.append(
            {
                "kernel": row["kernel"],
                "shape": ", ".join(f"{name} {value}" for name, value in row["shape"].items()),
                "ratio": ratio,
                "inside": abs(math.log(ratio)) <= tune.half_width(row["kernel"]),
            }
        )
    return scores


def validate_tuning() -> dict[str, Any]:
    """Return all scores of the tuner, devices of its fit apart from those left out."""
    layers = [
        {
            "device": row["device"],
            "source": row["source"],
            "setting": row["setting"],
            "ratio": layer_time_s(row) / row["measured_s"],
        }
        for row in measured_layers()
    ]
    groups: dict[tuple[str, str, str], list[float]] = {}
    for row in layers:
        groups.setdefault((row["device"], row["source"], row["setting"]), []).append(row["ratio"])
    width = tune.half_width("grouped_gemm")
    return {
        "choices": choice_scores(shipped_choices()),
        "layers": [
            {
                "device": device,
                "source": source,
                "setting": setting,
                "left_out": (device, source) not in ANCHORS,
                "rows": len(ratios),
                "median_ratio": float(np.median(ratios)),
                "inside": float(np.mean(np.abs(np.log(ratios)) <= width)),
            }
            for (device, source, setting), ratios in groups.items()
        ],
        "own": own_kernel_scores(),
        "winners": winner_scores(),
        "exhaustive": exhaustive_scores(),
    }
