"""Published costs of tokens against the model of cost, with published and predicted rates."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.cost import GpuPrice, HourlyCost, PoolPrices, TokenCounts, cost_columns, gpu_price
from perfatlas.quantities import PerfatlasError
from perfatlas.verbs.estimate import estimate
from validation.runs.shared_data import read_table

if TYPE_CHECKING:
    from pathlib import Path

INPUTS: Final = re.compile(
    r"([\d.]+) \$(?:/GPU)?/h[^;,]*[;,] ([\d.]+) (?:total tokens/s/GPU|tok/s|output tok/s|out tok/s)"
)
UTILIZATION: Final = re.compile(r"tok/s, ([\d.]+)$")
RUN: Final = re.compile(
    r"(?P<model>\S+) 8k/1k (?P<gpu>\S+) (?P<engine>\S+) (?P<format>\S+) (?P<mtp>MTP |non-MTP )?"
    r"TP(?P<tp>\d), concurrency (?P<concurrency>\d+)"
)
ISL, OSL = 8192, 1024  # of the 8k/1k runs
MODELS: Final = {
    ("MiniMax-M2.5", "FP8"): "MiniMaxAI/MiniMax-M2.5",
    ("MiniMax-M2.5", "NVFP4"): "nvidia/MiniMax-M2.5-NVFP4",
    ("Kimi-K2.5", "INT4"): "moonshotai/Kimi-K2.5",
    ("Kimi-K2.5", "NVFP4"): "nvidia/Kimi-K2.5-NVFP4",
    ("GLM-5", "FP8"): "zai-org/GLM-5-FP8",
}
SYSTEMS: Final = {"H100": "h100_sxm", "H200": "h200_sxm", "B200": "b200_sxm", "MI355X": "mi355x"}
TOLERANCE: Final = 0.05
MILLION: Final = 1e6
RATE: Final = "output_tokens_per_s_per_gpu"


class Recomputed(NamedTuple):
    """A published cost beside that of the same inputs."""

    case: str
    published_usd: float
    computed_usd: float
    error: float  # Relative difference
    rounding: float  # Half a unit of the last published digit, relative

    @property
    def agrees(self) -> bool:
        """Whether it is within 5%, or within the rounding of what is published."""
        return abs(self.error) <= max(TOLERANCE, self.rounding)


class Predicted(NamedTuple):
    """A published cost of a million tokens beside the predicted one, with its interval."""

    case: str
    model: str
    concurrency: int
    chip: str
    published_usd: float
    predicted_usd: float
    low_usd: float
    high_usd: float
    error: float


def cost_of(usd_per_hour: float, tokens_per_s: float, utilization: float = 1.0) -> float:
    """Return the cost of a million tokens by the model of cost [USD].

    Args:
        usd_per_hour: Price of the GPUs that have the rate.
        tokens_per_s: Their rate.
        utilization: Share of hours in which they serve.
    """
    price = GpuPrice(costs=(HourlyCost(gpu=usd_per_hour, utilization=utilization),) * 3, note="")
    pools = [PoolPrices([price], np.zeros(1, np.int64))]
    rates = dict.fromkeys(
        (f"{RATE}{end}" for end in ("", "_low", "_high")), np.array([tokens_per_s])
    )
    found = cost_columns({**rates, "gpus": np.ones(1)}, pools, np.zeros(1), TokenCounts(1.0, 1.0))
    return float(found["usd_per_million_output_tokens"][0])


def recomputed_cases(path: Path) -> tuple[list[Recomputed], list[str]]:
    """Return the published costs that follow from a price and a rate, and the other cases.

    Args:
        path: cost/cases.csv of the shared data.
    """
    found, others = [], []
    for row in read_table(path):
        inputs = INPUTS.search(row["inputs"])
        if inputs is None:
            others.append(row["case"])
            continue
        share = UTILIZATION.search(row["inputs"])
        usd = cost_of(float(inputs[1]), float(inputs[2]), float(share[1]) if share else 1.0)
        text = row["published_value"]
        published = float(text)
        unit = 10.0 ** -len(text.partition(".")[2])
        found.append(
            Recomputed(row["case"], published, usd, usd / published - 1.0, unit / 2.0 / published)
        )
    return found, others


def predicted_cases(path: Path) -> tuple[list[Predicted], dict[str, str]]:
    """Return the published costs with predicted rates, and why others are not predicted.

    The price is that of the case; the rate is that of `estimate` at the concurrency of the run. All
    tokens are counted, input and output.

    Args:
        path: cost/cases.csv of the shared data.
    """
    found, declined = [], {}
    for row in read_table(path):
        if "InferenceX" not in row["source"]:
            continue
        run, inputs = RUN.fullmatch(row["case"]), INPUTS.search(row["inputs"])
        if run is None or inputs is None:
            declined[row["case"]] = "the layout is not published"
        elif run["mtp"] == "MTP ":
            declined[row["case"]] = "the acceptance of draft tokens is not published"
        else:
            try:
                found.append(_predicted(row, run.groupdict(), float(inputs[1])))
            except PerfatlasError as problem:
                declined[row["case"]] = str(problem)
    return found, declined


def _predicted(row: dict[str, str], run: dict[str, str], usd_per_hour: float) -> Predicted:
    chip, tp = run["gpu"], int(run["tp"])
    answer = estimate(
        model=MODELS[run["model"], run["format"]],
        system=SYSTEMS[chip],
        engine=run["engine"].lower(),
        mode="aggregated",
        tp=tp,
        concurrency=int(run["concurrency"]),
        isl=ISL,
        osl=OSL,
        usd_per_gpu_hour=usd_per_hour,
    )
    share = OSL / (ISL + OSL)
    ends = ("", "_low", "_high")
    names = [f"usd_per_million_output_tokens{end}" for end in ends]
    usd, low, high = (answer.results[name] for name in names)
    published = float(row["published_value"])
    return Predicted(
        row["case"],
        run["model"],
        int(run["concurrency"]),
        f"{chip} {run['format']}",
        published,
        usd * share,
        low * share,
        math.inf if high is None else high * share,
        usd * share / published - 1.0,
    )


def ranked_pairs(cases: list[Predicted]) -> tuple[int, int, int]:
    """Return the pairs of chips of one model and load, those whose intervals do not meet, and hits.

    Args:
        cases: From `predicted_cases`.
    """
    pairs = apart = right = 0
    for number, one in enumerate(cases):
        for two in cases[number + 1 :]:
            if (one.model, one.concurrency) != (two.model, two.concurrency):
                continue
            pairs += 1
            if one.high_usd < two.low_usd or two.high_usd < one.low_usd:
                apart += 1
                predicted = one.predicted_usd < two.predicted_usd
                right += predicted == (one.published_usd < two.published_usd)
    return pairs, apart, right


def owned_prices(path: Path) -> list[dict[str, Any]]:
    """Return the prices of ownership beside those of a third party.

    Args:
        path: cost/facts.csv of the shared data.
    """
    found = []
    modelled = [row for row in read_table(path) if "TCO owning" in row["item"]]
    for row in modelled:
        chip, _, provider = row["item"].partition(" TCO owning, ")
        price = gpu_price(SYSTEMS.get(chip, chip.lower()), "owned")
        if price.is_known:
            usd, low, high = price.usd
            published = float(row["value"])
            inside = low <= published <= high
            found.append(
                {
                    "chip": chip,
                    "provider": provider,
                    "published_usd": published,
                    "owned_usd": usd,
                    "error": usd / published - 1.0,
                    "inside": inside,
                }
            )
    return found
