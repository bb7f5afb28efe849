"""Published costs of tokens against the model of cost, with published and predicted rates."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

from perfatlas.cost import gpu_price
from perfatlas.quantities import PerfatlasError
from perfatlas.verbs.estimate import estimate
from validation.runs.shared_data import read_table

if TYPE_CHECKING:
    from pathlib import Path

Row = dict[str, Any]
INPUTS: Final = re.compile(
    r"([\d.]+) \$(?:/GPU)?/h[^;,]*[;,] ([\d.]+) (?:total tokens/s/GPU|tok/s|output tok/s|out tok/s)"
)
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


def predicted_cases(path: Path) -> tuple[list[Row], dict[str, str]]:
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


def _predicted(row: dict[str, str], run: dict[str, str], usd_per_hour: float) -> Row:
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
    return {
        "case": row["case"],
        "model": run["model"],
        "concurrency": int(run["concurrency"]),
        "chip": f"{chip} {run['format']}",
        "published_usd": published,
        "predicted_usd": usd * share,
        "low_usd": low * share,
        "high_usd": math.inf if high is None else high * share,
        "error": usd * share / published - 1.0,
    }


def ranked_pairs(cases: list[Row]) -> tuple[int, int, int]:
    """Return the pairs of chips of one model and load, those whose intervals do not meet, and hits.

    Args:
        cases: From `predicted_cases`.
    """
    pairs = apart = right = 0
    for number, one in enumerate(cases):
        for two in cases[number + 1 :]:
            if any(one[name] != two[name] for name in ("model", "concurrency")):
                continue
            pairs += 1
            if one["high_usd"] < two["low_usd"] or two["high_usd"] < one["low_usd"]:
                apart += 1
                predicted = one["predicted_usd"] < two["predicted_usd"]
                right += predicted == (one["published_usd"] < two["published_usd"])
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
