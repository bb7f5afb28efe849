"""Published figures of kernels and collectives beside their predictions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.verbs.collective import collective
from perfatlas.verbs.kernel import kernel_attention, kernel_gemm, kernel_moe
from validation.laboratories.spread import NORMAL
from validation.laboratories.table_draws import CLASSES, Draw
from validation.scoring import read_data

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.answer import Answer

FIGURES: Final = "published_kernels.toml"
COLLECTIVES: Final = "collective_runs.toml"
FUNCTIONS: Final[Mapping[str, Callable[..., Answer]]] = {
    "kernel gemm": kernel_gemm,
    "kernel attention": kernel_attention,
    "kernel moe": kernel_moe,
    "collective": collective,
}
BUS: Final = "bus_bandwidth_bytes_per_s"


@dataclass(frozen=True, kw_only=True)
class PublishedTime:
    """A published time of one operator, and its prediction."""

    id: str  # Name of the figure
    source: str  # Who measured it
    named: bool  # Whether the figure is widely known
    counted: bool  # Whether it is a draw of its own: no other list has the same run
    metric: str  # Metric that was published
    value: float  # As published [SI]
    predicted: float  # The same metric as predicted
    operators: str  # Class of operators
    published_s: float  # Time that the figure means [s]
    time_s: float  # Predicted time [s]
    tabulated_s: tuple[float, float]  # Interval "as tabulated" [s]
    machine_s: tuple[float, float]  # Interval "on your machine" [s]
    note: str  # What was assumed
    ref: str  # Where it was published


@cache
def published_times() -> tuple[PublishedTime, ...]:
    """Return all published figures with their predictions."""
    return tuple(
        _predicted(figure) for figure in (*read_data(FIGURES)["figure"], *_collective_figures())
    )


def _collective_figures() -> list[dict[str, Any]]:
    """Return the runs of collectives as figures; a source is the page it was published on."""
    return [
        {
            "id": run["id"],
            "source": str(run["source"]).split(",")[0].split(" at ")[0],
            "command": "collective",
            "metric": "time_s" if "time_s" in run else BUS,
            "value": run.get("time_s") or run["busbw_bytes_per_s"],
            "named": False,
            "ref": run["source"],
            "fields": {name: run[name] for name in ("system", "op", "gpus", "bytes")}
            | {"kernel_family": run.get("family") or "nccl", "tier": "physics"},
        }
        for run in read_data(COLLECTIVES)["run"]
    ]


def _predicted(figure: Mapping[str, Any]) -> PublishedTime:
    answer = FUNCTIONS[figure["command"]](**figure["fields"])
    results, metric = answer.results, figure["metric"]
    time_s, predicted = float(results["time_s"]), float(results[metric])
    # a rate is work over time, and the work is that of the prediction
    share = figure["value"] / predicted
    return PublishedTime(
        id=figure["id"],
        source=figure["source"],
        named=figure["named"],
        counted=figure.get("counted", True),
        metric=metric,
        value=figure["value"],
        predicted=predicted,
        operators=_operators(str(answer.breakdown[0]["calibration"])),
        published_s=time_s * share if metric == "time_s" else time_s / share,
        time_s=time_s,
        tabulated_s=(results["tabulated_low_s"], results["tabulated_high_s"]),
        machine_s=(results["time_s_low"], results["time_s_high"]),
        note=figure.get("note", ""),
        ref=figure["ref"],
    )


def _operators(calibration: str) -> str:
    """Return the class of the operator of a calibration, from its id."""
    operator = calibration.split("/")[1]
    classes: Mapping[str, Sequence[str]] = read_data(CLASSES)["classes"]
    return next(name for name, operators in classes.items() if operator in operators)


def published_draws() -> list[Draw]:
    """Return a draw per source and class of the published figures."""
    places: dict[tuple[str, str], list[PublishedTime]] = {}
    for published_time in published_times():
        if not published_time.counted:
            continue
        places.setdefault((published_time.source, published_time.operators), []).append(
            published_time
        )
    return [_draw(source, operators, own) for (source, operators), own in places.items()]


def _draw(source: str, operators: str, times: Sequence[PublishedTime]) -> Draw:
    half_U2 = np.array(
        [
            [np.log(time.time_s / time.tabulated_s[0]), np.log(time.tabulated_s[1] / time.time_s)]
            for time in times
        ]
    )
    return Draw(
        source=source,
        operators=operators,
        kind="published",
        logs=np.log(np.array([time.published_s / time.time_s for time in times])),
        spreads=half_U2.mean(axis=1) / NORMAL,
        half_widths=half_U2,
    )
