"""Power of nodes and jobs over time against readings and published swings."""

from __future__ import annotations

from itertools import pairwise
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.energy import board_energy, node_power
from perfatlas.files import shipped_table
from perfatlas.hardware import resolve_system
from perfatlas.quantities import InvalidSpecError
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.train import train, training_power
from validation.power.splits import power_splits
from validation.runs import missing_data, read_table, shared_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

NODES: Final = "data/energy/nodes.toml"
SYSTEMS: Final = {"H200-SXM": "h200_sxm", "B200-SXM": "b200_sxm"}
# Pre-training of Llama 3 405B on 16,384 H100: layout and step of Table 4.
# Source: arXiv 2407.21783.
LLAMA: Final[dict[str, Any]] = {
    "model": "meta-llama/Llama-3.1-405B",
    "system": "h100_sxm",
    "gpus": 16_384,
    "tp": 8,
    "pp": 16,
    "sequence_length": 8192,
    "global_batch": 2048,
    "trace_duration_s": 300,
}
# Figures: published least and most value, unit, source.
SWING: Final = (1e7, 1e8, "W", "arXiv 2407.21783, 3.3.4: instant changes of tens of megawatts")
BAND: Final = (0.2, 3.0, "Hz", "arXiv 2508.14318: energy of fluctuations of training jobs")
SITE: Final = (1810.0, 1810.0, "W", "arXiv 2605.24461: 150 MW for 83,000 GB200 at 960 W")
SERVED: Final[dict[str, Any]] = {
    "kv_format": "fp8",
    "mode": "aggregated",
    "requests_per_client": 1,
}
RACK: Final = (110e3, 132e3, "W", "rack of GB300: 18 trays of 6.5 kW to shelves of 132 kW")


def validate_swings() -> dict[str, Any]:
    """Return readings of nodes and published figures beside predictions, as rows of tables.

    Raises:
        InvalidSpecError: The data are missing.
    """
    folder = shared_folder()
    for name in ("power_machines.csv", "power_traces_mlperf.csv"):
        if not (folder / name).is_file():
            raise InvalidSpecError(missing_data(folder / name))
    runs = _runs(read_table(folder / "power_machines.csv"))
    traces = _traces(read_table(folder / "power_traces_mlperf.csv"))
    nodes = [_loaded(run) for run in runs] + [_idle(run) for run in runs]
    ramps = [_ramp(run, traces[run["key"], run["scenario"]]) for run in runs]
    figures = _figures()
    groups = {
        "nodes under load, H200, networks whose runs fit the share of fans": ("fitted", "h200_sxm"),
        "nodes under load, H200, language models at their power limit": ("load", "h200_sxm"),
        "nodes under load, B200": ("load", "b200_sxm"),
        "nodes before load, H200": ("before load", "h200_sxm"),
        "nodes before load, B200": ("before load", "b200_sxm"),
    }
    learned: dict[str, list[float]] = {"load": [], "before load": []}
    for run in runs:
        if run["run"] in power_splits().nodes["fitted"]:
            learned["load"].append(run["mean_power"])
            learned["before load"].append(run["power_before_load"])
    summary: list[dict[str, Any]] = []
    for what, (state, system) in groups.items():
        own = [row for row in nodes if (row["state"], row["system"]) == (state, system)]
        inside = sum(row["low_w"] <= row["measured_w"] <= row["high_w"] for row in own)
        constant_w = median(learned["load" if state == "fitted" else state])
        summary.append(
            {
                "what": what,
                "rows": len(own),
                "error": median(abs(row["error"]) for row in own),
                "constant_error": median(abs(constant_w / row["measured_w"] - 1.0) for row in own),
                "inside": inside / len(own),
            }
        )
    below = sum(row["measured_w_per_s"] <= row["predicted_w_per_s"] for row in ramps)
    what = "steepest second: largest edge that the model allows not exceeded"
    summary.append({"what": what, "rows": len(ramps), "inside": below / len(ramps)})
    shares, shipped = _fan_shares(runs), shipped_table(NODES)["hgx_hopper"]["fans"]
    fans: list[dict[str, Any]] = [{"node": "hgx_hopper"}]
    for end, quantile in (("", 0.5), ("_low", 0.05), ("_high", 0.95)):
        fans[0][f"fitted{end}"] = float(np.quantile(shares, quantile))
        fans[0][f"shipped{end}"] = shipped[end.strip("_") or "value"]
    return {"nodes": nodes, "ramps": ramps, "figures": figures, "fans": fans, "summary": summary}


def _fan_shares(runs: list[dict[str, Any]]) -> list[float]:
    """Return the share of fans at which each fitted run draws what was measured.

    GPUs are taken to draw their limit; a run whose limit does not bind gives a share too low.
    """
    node = resolve_system("h200_sxm").node
    host_w = node_power(node).host_w
    efficiency = shipped_table(NODES)[node.name]["efficiency"]["value"]
    return [
        run["mean_power"] * efficiency / (node.devices * run["limit_w"] + host_w) - 1.0
        for run in runs
        if run["run"] in power_splits().nodes["fitted"] and run["system"] == "h200_sxm"
    ]


def _runs(rows: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Return the runs of known systems at the meter of their node."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        if row["accelerator"] in SYSTEMS and row["boundary"].startswith("node, AC"):
            run = found.setdefault((row["key"], row["scenario"]), {})
            run |= {"key": row["key"], "scenario": row["scenario"], "run": row["workload"]}
            run["system"] = SYSTEMS[row["accelerator"]]
            run["limit_w"] = float(row["accelerator_power_limit_w"])
            run[row["metric"]] = float(row["value"])
    return list(found.values())


def _traces(rows: list[dict[str, str]]) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Return the readings of each run: time from the begin of its window [s], power [W]."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in rows:
        reading = (float(row["t_s"]), float(row["power_w"]))
        found.setdefault((row["key"], row["scenario"]), []).append(reading)
    return found


def _at(run: Mapping[str, Any], gpu_w: float) -> list[float]:
    """Return the power of a node whose GPUs draw a power, with its interval [W]."""
    node = resolve_system(run["system"]).node
    return [node_power(node, end).node_w(gpu_w) for end in ("value", "low", "high")]


def _compared(
    run: Mapping[str, Any], state: str, measured_w: float, watts: list[float]
) -> dict[str, Any]:
    predicted_w, low_w, high_w = watts
    return {
        "run": f"{run['run']} {run['scenario']}",
        "system": run["system"],
        "state": state,
        "limit_w": run["limit_w"],
        "measured_w": measured_w,
        "predicted_w": predicted_w,
        "low_w": low_w,
        "high_w": high_w,
        "error": predicted_w / measured_w - 1.0,
    }


def _loaded(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return a loaded node beside the mean of its run: an estimate, or all GPUs at their limit."""
    state = "fitted" if run["run"] in power_splits().nodes["fitted"] else "load"
    asked = power_splits().nodes["asked"].get(run["run"])
    watts = _at(run, run["limit_w"])
    if asked:
        limit = {} if run["system"] == "b200_sxm" else {"power_cap_w": run["limit_w"]}
        found = estimate(**SERVED, **asked, **limit, system=run["system"]).results
        watts = [found[f"node_power_w{end}"] for end in ("", "_low", "_high")]
    return _compared(run, state, run["mean_power"], watts)


def _idle(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node without load beside the first second of its log, whose GPUs are idle."""
    idle_w = board_energy(resolve_system(run["system"]).device).idle_w
    return _compared(run, "before load", run["power_before_load"], _at(run, idle_w))


def _ramp(run: Mapping[str, Any], trace: list[tuple[float, float]]) -> dict[str, Any]:
    """Return the steepest second of a run beside the edge from no kernels to the limit."""
    system = resolve_system(run["system"])
    node, on_w = node_power(system.node), board_energy(system.device).on_w
    edge_w = node.node_w(run["limit_w"]) - node.node_w(on_w)
    steepest = max((b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(trace))
    window = [watts for time_s, watts in trace if 0.0 <= time_s <= run["duration"]]
    least_w = power_splits().nodes["plateau"] * quantiles(window, n=4)[2]
    return {
        "run": f"{run['run']} {run['scenario']}",
        "measured_w_per_s": steepest,
        "predicted_w_per_s": edge_w,
        "share": steepest / edge_w,
        "below_plateau": sum(watts < least_w for watts in window) / len(window),
    }


def _figures() -> list[dict[str, Any]]:
    """Return published figures of jobs and sites beside predictions."""
    job = train(**LLAMA).results["power_over_time"][-1]
    watts = training_power(**LLAMA).watts["job"]
    energy = np.abs(np.fft.rfft(watts - watts.mean())) ** 2
    hertz = float(np.average(np.fft.rfftfreq(watts.size, 0.01), weights=energy))
    gb200, gb300 = resolve_system("gb200"), resolve_system("gb300")
    per_gpu_w = node_power(gb200.node).node_w(960.0) / gb200.node.devices
    rack_w = 72 / gb300.node.devices * node_power(gb300.node).node_w(gb300.device.tdp_w)
    predicted = {
        "swing of Llama 3 405B on 16,384 H100": (job["peak_power_w"] - job["least_power_w"], SWING),
        "mean frequency of its fluctuations": (hertz, BAND),
        "GB200 site for each GPU; predicted without cooling and storage": (per_gpu_w, SITE),
        "GB300 rack at TDP": (rack_w, RACK),
    }
    return [
        {
            "figure": name,
            "unit": unit,
            "least": least,
            "most": most,
            "predicted": value,
            "inside": least <= value <= most,
            "source": source,
        }
        for name, (value, (least, most, unit, source)) in predicted.items()
    ]
