"""Power of nodes and jobs over time against readings and published swings; nothing is fitted."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.energy import board_energy, node_power
from perfatlas.hardware import resolve_system
from perfatlas.quantities import InvalidSpecError
from perfatlas.verbs.train import train, training_power
from validation.runs import missing_data, read_table, shared_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    steps = _steepest(read_table(folder / "power_traces_mlperf.csv"))
    nodes = [_loaded(run) for run in runs] + [_idle(run) for run in runs]
    ramps = [_ramp(run, steps[run["key"], run["scenario"]]) for run in runs]
    figures = _figures()
    groups = {
        "nodes under load, H200 (limit from the configuration)": ("load", "h200_sxm"),
        "nodes under load, B200 (whose limit is not reached)": ("load", "b200_sxm"),
        "nodes before load, H200": ("before load", "h200_sxm"),
        "nodes before load, B200": ("before load", "b200_sxm"),
    }
    summary = []
    for what, (state, system) in groups.items():
        own = [row for row in nodes if (row["state"], row["system"]) == (state, system)]
        inside = sum(row["low_w"] <= row["measured_w"] <= row["high_w"] for row in own)
        error = median(abs(row["error"]) for row in own)
        summary.append(
            {"what": what, "rows": len(own), "error": error, "inside": inside / len(own)}
        )
    below = sum(row["measured_w_per_s"] <= row["predicted_w_per_s"] for row in ramps)
    what = "steepest second: largest edge that the model allows not exceeded"
    summary.append({"what": what, "rows": len(ramps), "error": None, "inside": below / len(ramps)})
    return {"nodes": nodes, "ramps": ramps, "figures": figures, "summary": summary}


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


def _steepest(rows: list[dict[str, str]]) -> dict[tuple[str, str], float]:
    """Return the largest rise of the meter within a second, by run [W/s]."""
    found: dict[tuple[str, str], float] = {}
    before: Mapping[str, str] = {}
    for row in rows:
        run = (row["key"], row["scenario"])
        if before and run == (before["key"], before["scenario"]):
            lasts_s = float(row["t_s"]) - float(before["t_s"])
            rise_w = float(row["power_w"]) - float(before["power_w"])
            found[run] = max(found.get(run, 0.0), rise_w / lasts_s)
        before = row
    return found


def _compared(
    run: Mapping[str, Any], state: str, measured_w: float, gpu_w: float
) -> dict[str, Any]:
    node = resolve_system(run["system"]).node
    predicted_w, low_w, high_w = (
        node_power(node, end).node_w(gpu_w) for end in ("value", "low", "high")
    )
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
    """Return a node whose GPUs all draw their limit beside the mean of its run."""
    return _compared(run, "load", run["mean_power"], run["limit_w"])


def _idle(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node without load beside the first second of its log, whose GPUs are idle."""
    idle_w = board_energy(resolve_system(run["system"]).device).idle_w
    return _compared(run, "before load", run["power_before_load"], idle_w)


def _ramp(run: Mapping[str, Any], measured_w_per_s: float) -> dict[str, Any]:
    """Return the steepest second of a run beside the edge from no kernels to the limit."""
    system = resolve_system(run["system"])
    node, on_w = node_power(system.node), board_energy(system.device).on_w
    edge_w = node.node_w(run["limit_w"]) - node.node_w(on_w)
    return {
        "run": f"{run['run']} {run['scenario']}",
        "measured_w_per_s": measured_w_per_s,
        "predicted_w_per_s": edge_w,
        "share": measured_w_per_s / edge_w,
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
