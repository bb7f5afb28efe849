"""`perfatlas search` beside `aiconfigurator cli default` on the same questions.

    python benchmarks/peer_search.py --aic peers/bin/aiconfigurator [--searches 4]

Each search runs in its own process, start-up included. aiconfigurator answers both modes in one
run. The best plans of each tool are priced by the other one too, at the same load.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from search_rate import LENGTHS, MODES, SEARCHES

import perfatlas
from perfatlas.quantities import PerfatlasError

MAX_S: Final = 900.0
PEER_LENGTHS: Final = ("--isl", "4000", "--osl", "500", "--ttft", "2000", "--tpot", "50")
PER_GPU: Final = "output_tokens_per_s_per_gpu"
# sizes of a plan by the columns and flags of aiconfigurator
SIZES: Final = {"tp": "tp", "pp": "pp", "attention_dp": "dp", "moe_tp": "moe_tp", "ep": "moe_ep"}
POOL_FLAGS: Final = {
    "tp": "tp-size",
    "pp": "pp-size",
    "attention_dp": "attention-dp-size",
    "moe_tp": "moe-tp-size",
    "ep": "moe-ep-size",
    "workers": "num-workers",
}
FLAGS: Final = {"tp": "--tp", "pp": "--pp", "attention_dp": "--dp", "moe_tp": "--etp", "ep": "--ep"}


class Used(NamedTuple):
    """What a process used, and what it wrote to standard output."""

    cpu_s: float
    wall_s: float
    peak_bytes: float
    said: str


def used(words: list[str]) -> Used:
    """Run a command; return what it used.

    Raises:
        RuntimeError: It failed, or took too long.
    """
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT)  # noqa: S603
        while True:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            if time.perf_counter() - started > MAX_S:
                process.kill()
            time.sleep(0.05)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read()
    if process.returncode:
        raise RuntimeError(f"{words[0]}: exit code {process.returncode}: {text[-300:]}")
    wall_s = time.perf_counter() - started
    return Used(usage.ru_utime + usage.ru_stime, wall_s, usage.ru_maxrss * 1024.0, text)


def ours(model: str, system: str, gpus: int, mode: str) -> tuple[Used, dict[str, Any]]:
    """Return a search by perfatlas and its results.

    Args:
        gpus: GPUs of the deployment.
        mode: aggregated or disaggregated.
    """
    words = [sys.executable, "-m", "perfatlas", "search", "--model", model, "--system", system]
    words += ["--gpus", str(gpus), "--mode", mode, *LENGTHS, "--num-simulated", "0", "--json"]
    found = used(words)
    return found, json.loads(found.said[found.said.index("{") :])["results"]


def theirs(
    command: str, model: str, system: str, gpus: int
) -> tuple[Used, dict[str, dict[str, str]]]:
    """Return a search by aiconfigurator, and the best row of each mode.

    Args:
        gpus: GPUs of the deployment.
    """
    with tempfile.TemporaryDirectory() as folder:
        words = [command, "cli", "default", "--model-path", model, "--total-gpus", str(gpus)]
        words += ["--system", system, "--backend", "vllm", *PEER_LENGTHS, "--save-dir", folder]
        found = used(words)
        best = {}
        for mode in ("agg", "disagg"):
            for path in Path(folder).rglob(f"{mode}/best_config_topn.csv"):
                with path.open(encoding="utf-8") as file:
                    best[mode] = next(csv.DictReader(file))
    return found, best


def priced_here(model: str, system: str, gpus: int, row: dict[str, str]) -> float:
    """Return the rate per GPU by perfatlas of an aggregated plan of aiconfigurator [1/s].

    Args:
        gpus: GPUs of the deployment.
    """
    plan: dict[str, Any] = {name: int(row[column]) for name, column in SIZES.items()}
    replicas = gpus // (plan["tp"] * plan["pp"] * plan["attention_dp"])
    if plan["ep"] * plan["moe_tp"] == 1:  # a dense model, or all experts on one GPU
        plan = {name: plan[name] for name in ("tp", "pp")}
    plan |= {"dp": replicas, "concurrency": int(row["concurrency"]) * replicas}
    answer = perfatlas.estimate(
        model=model, system=system, mode="aggregated", isl=4000, osl=500, method="formula", **plan
    )
    return float(answer.results[PER_GPU])


def pools_priced_here(model: str, system: str, row: dict[str, str]) -> float:
    """Return the rate per GPU by perfatlas of a disaggregated plan of aiconfigurator [1/s].

    Its decode batches are those of an attention data-parallel rank; ours of a worker.
    """
    fields: dict[str, Any] = {}
    for role, mark in (("prefill", "(p)"), ("decode", "(d)")):
        plan: dict[str, Any] = {name: int(row[mark + column]) for name, column in SIZES.items()}
        ranks = plan["attention_dp"]
        if plan["ep"] * plan["moe_tp"] == 1:
            plan = {name: plan[name] for name in ("tp", "pp")}
        plan |= {"workers": int(row[f"{mark}workers"]), "batch": int(row[f"{mark}bs"]) * ranks}
        fields |= {f"{role}_{name}": value for name, value in plan.items()}
    fields |= {"mode": "disaggregated", "method": "formula"}
    answer = perfatlas.estimate(model=model, system=system, isl=4000, osl=500, **fields)
    return float(answer.results[PER_GPU])


def priced_there(command: str, model: str, system: str, plan: dict[str, Any]) -> float:
    """Return the rate per GPU by aiconfigurator of an aggregated plan of perfatlas [1/s]."""
    batch = plan["concurrency"] // (plan["dp"] * plan["attention_dp"])
    words = [command, "cli", "estimate", "--model-path", model, "--system", system]
    words += ["--backend", "vllm", "--isl", "4000", "--osl", "500", "--batch-size", str(batch)]
    words += [word for name, flag in FLAGS.items() if name in plan for word in (flag, plan[name])]
    found = re.search(r"tokens/s/gpu:\s+([\d.]+)", used([str(word) for word in words]).said)
    if found is None:
        raise RuntimeError("aiconfigurator printed no rate per GPU")
    return float(found[1])


def pools_priced_there(command: str, model: str, system: str, plan: dict[str, Any]) -> float:
    """Return the rate per GPU by aiconfigurator of a disaggregated plan of perfatlas [1/s]."""
    words = [command, "cli", "estimate", "--model-path", model, "--system", system]
    words += ["--estimate-mode", "disagg", "--backend", "vllm", "--isl", "4000", "--osl", "500"]
    for role in ("prefill", "decode"):
        for name, flag in POOL_FLAGS.items():
            if f"{role}_{name}" in plan:
                words += [f"--{role}-{flag}", str(plan[f"{role}_{name}"])]
        ranks = plan.get(f"{role}_attention_dp", 1)
        words += [f"--{role}-batch-size", str(max(plan[f"{role}_batch"] // ranks, 1))]
    found = re.search(r"tokens/s/gpu:\s+([\d.]+)", used(words).said)
    if found is None:
        raise RuntimeError("aiconfigurator printed no rate per GPU")
    return float(found[1])


def compare(command: str, model: str, system: str, gpus: int) -> None:
    """Print one question as answered by both tools.

    Args:
        command: aiconfigurator.
        gpus: GPUs of the deployment.
    """
    print(f"{model.rpartition('/')[2]}, {gpus} x {system}", flush=True)
    best: dict[str, Any] = {}
    for mode in MODES:
        found, results = ours(model, system, gpus, mode)
        best[mode] = plan = results["plans"][0]
        points, size = results["points"], results["candidates"]
        print(
            f"  perfatlas, {mode}: {found.cpu_s:.1f} CPU-s, {found.wall_s:.1f} s,"
            f" {found.peak_bytes / 1e6:.0f} MB; {size:,} candidates at {points:,} loads,"
            f" {points / found.cpu_s:,.0f} per CPU-s with start-up; best {plan[PER_GPU]:.0f}"
        )
    try:
        found, rows = theirs(command, model, system, gpus)
        print(
            f"  aiconfigurator, both: {found.cpu_s:.1f} CPU-s, {found.wall_s:.1f} s,"
            f" {found.peak_bytes / 1e6:.0f} MB; best "
            + ", ".join(f"{mode} {float(row['tokens/s/gpu']):.0f}" for mode, row in rows.items())
        )
        if "agg" in rows:
            here = priced_here(model, system, gpus, rows["agg"])
            print(
                f"  its best aggregated plan ({rows['agg']['parallel']}) by perfatlas: {here:.0f}"
            )
        if "disagg" in rows:
            here = pools_priced_here(model, system, rows["disagg"])
            print(f"  its best disaggregated plan by perfatlas: {here:.0f}")
        there = priced_there(command, model, system, best["aggregated"])
        print(f"  the best aggregated plan of perfatlas by aiconfigurator: {there:.0f}", flush=True)
        there = pools_priced_there(command, model, system, best["disaggregated"])
        print(f"  its best disaggregated plan by aiconfigurator: {there:.0f}", flush=True)
    except (RuntimeError, PerfatlasError) as problem:
        print(f"  not run: {problem}", flush=True)


def main() -> None:
    """Print the searches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--aic", required=True)
    parser.add_argument("--searches", type=int, default=len(SEARCHES))
    asked = parser.parse_args()
    for search in SEARCHES[: asked.searches]:
        compare(asked.aic, *search)


if __name__ == "__main__":
    main()
