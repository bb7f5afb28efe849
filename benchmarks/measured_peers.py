"""Tier measured and aiconfigurator 0.12 on serving runs of other laboratories, by device.

`python benchmarks/measured_peers.py --aic-python peers/bin/python --page PAGE`
needs an environment with aiconfigurator 0.12.0 and the files of `python -m validation sources`.
Both price the same decode step and the same prompt, from the same tables, and both are composed
alike.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from perfatlas.verbs.estimate import estimate_table
from validation.laboratories.sources import RULES, source_file
from validation.scoring import read_data

Row = dict[str, Any]
HERE: Final = Path(__file__).parent
TEMPLATE: Final = HERE / "measured_peers.md"
LLAMA: Final = "meta-llama/Meta-Llama-3.1-"
# name of a model in perfatlas -> in aiconfigurator 0.12, and whether it has experts
MODELS: Final = {
    **dict.fromkeys(("meta-llama/Llama-3.1-8B", f"{LLAMA}8B-Instruct"), (f"{LLAMA}8B", False)),
    "meta-llama/Llama-3.1-8B-Instruct": (f"{LLAMA}8B", False),
    "meta-llama/Llama-3.1-70B": (f"{LLAMA}70B", False),
    "meta-llama/Llama-3.1-70B-Instruct": (f"{LLAMA}70B", False),
    "meta-llama/Meta-Llama-3-70B": (f"{LLAMA}70B", False),
    "meta-llama/Llama-3.3-70B-Instruct": (f"{LLAMA}70B", False),
    "meta-llama/Llama-3.1-405B": (f"{LLAMA}405B", False),
    "Qwen/Qwen3-8B": ("Qwen/Qwen3-8B", False),
    "Qwen/Qwen3-32B": ("Qwen/Qwen3-32B", False),
    "Qwen/Qwen3-30B-A3B": ("Qwen/Qwen3-30B-A3B", True),
    "Qwen/Qwen3-30B-A3B-Instruct-2507": ("Qwen/Qwen3-30B-A3B", True),
    "Qwen/Qwen3-30B-A3B-Thinking-2507": ("Qwen/Qwen3-30B-A3B", True),
    "mistralai/Mixtral-8x7B-v0.1": ("mistralai/Mixtral-8x7B-v0.1", True),
    "mistralai/Mixtral-8x22B-v0.1": ("mistralai/Mixtral-8x22B-v0.1", True),
}
BF16: Final = ("bf16", "bfloat16")
MAX_SEQUENCES: Final = 2048
CONTEXTS: Final = (1024, 1024)  # input and output tokens assumed of chats whose input is not stated
TOOLS: Final = ("perfatlas", "aiconfigurator")
GROUPS: Final = ("source", "gpu", "models")


class Run(NamedTuple):
    """A measured run."""

    row: Row  # Source, gpu and kind of model
    fields: Row  # Static scenario of perfatlas, without the batch
    requests: float  # Sequences in flight
    measured_s: float  # What was measured [s]


def runs() -> list[Run]:
    """Return median times between tokens of ML.ENERGY, in bf16."""
    rules, found = read_data(RULES)["ml_energy"], []
    for row in source_file("ml_energy"):
        known = row["model"] in MODELS and row["precision"].lower() in ("bfloat16", "bf16")
        batch = float(row["avg_batch"] or 0.0)
        if (
            not known
            or row["gpu"] not in rules["systems"]
            or row["tp"] != row["n_gpus"]
            or batch < 1
        ):
            continue
        fields = {"engine": rules["engine"], "format": "bf16", "kv_format": "bf16"}
        fields |= {"model": row["model"], "system": rules["systems"][row["gpu"]]}
        output = max(round(float(row["avg_output_tokens"] or CONTEXTS[1])), 2)
        fields |= {"tp": int(row["tp"]), "isl": CONTEXTS[0], "osl": output}
        experts = MODELS[row["model"]][1]
        kind = {
            "source": "ML.ENERGY",
            "gpu": row["gpu"],
            "models": "experts" if experts else "dense",
        }
        measured_s = 1e-3 * float(row["itl_p50_ms"])
        found.append(Run(kind, fields, batch, measured_s=measured_s))
    return found


def batches(asked: list[Run]) -> list[int]:
    """Return the sequences of each run: those in flight, or as many as the cache holds."""
    one = _estimates([run.fields | {"batch": 1} for run in asked])
    found = []
    for run, tokens in zip(asked, one["memory_kv_capacity_tokens"], strict=True):
        each = run.fields["isl"] + run.fields["osl"] / 2
        room = float(tokens or 0.0) / each
        found.append(max(round(min(run.requests, room, MAX_SEQUENCES)), 1))
    return found


def _estimates(fields: list[Row]) -> Any:  # noqa: ANN401 - columns of a table
    common = {"mode": "static", "tier": "measured"}
    table = {name: [(field | common)[name] for field in fields] for name in (*fields[0], *common)}
    return estimate_table(table).columns


def step_times(asked: list[Run], batch: list[int]) -> dict[str, list[list[Any]]]:
    """Return decode and prompt times of perfatlas, [s] and NaN where refused."""
    full = _estimates([run.fields | {"batch": b} for run, b in zip(asked, batch, strict=True)])
    one = _estimates([run.fields | {"batch": 1} for run in asked])
    return {"steps": [list(pair) for pair in zip(full["tpot_s"], one["ttft_s"], strict=True)]}


def peer_times(asked: list[Run], batch: list[int], python: str) -> dict[str, Any]:
    """Return decode and prompt times of aiconfigurator.

    Args:
        batch: Sequences of each.
        python: Python with aiconfigurator 0.12.0.
    """
    steps = [
        {
            "model": MODELS[run.fields["model"]][0],
            "experts": MODELS[run.fields["model"]][1],
            "system": run.fields["system"],
            "backend": run.fields["engine"].split("@")[0],
            **{name: run.fields[name] for name in ("tp", "format", "kv_format")},
            "batch": b,
            "context": run.fields["isl"] + run.fields["osl"] // 2,
            "prompt": run.fields["isl"],
        }
        for run, b in zip(asked, batch, strict=True)
    ]
    done = subprocess.run(  # noqa: S603 - the interpreter that the user named
        [python, str(HERE / "peer_steps.py")],
        input=json.dumps(steps),
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def predicted_s(step: list[Any]) -> float:
    """Return the time between tokens, NaN where a tool has no answer [s].

    Args:
        step: Decode time and prompt time [s].
    """
    if len(step) != 2 or None in step:
        return float("nan")
    return float(step[0])


def table(asked: list[Run], ours: list[float], theirs: list[float]) -> list[Row]:
    """Return errors by source, device and kind of model, of runs that both answer."""
    groups = dict.fromkeys(tuple(run.row[name] for name in GROUPS) for run in asked)
    rows = []
    for group in sorted(groups):
        own = [n for n, run in enumerate(asked) if tuple(run.row[name] for name in GROUPS) == group]
        both = [n for n in own if np.isfinite(ours[n]) and np.isfinite(theirs[n])]
        row: Row = dict(zip(GROUPS, group, strict=True)) | {"runs": len(own), "both": len(both)}
        for name, times in (("perfatlas", ours), ("aiconfigurator", theirs)):
            ratio = np.array([times[n] / asked[n].measured_s for n in both])
            row[name] = float(np.median(np.abs(ratio - 1.0))) if both else None
            row[f"{name}_ratio"] = float(np.median(ratio)) if both else None
        rows.append(row)
    return rows


def page(rows: list[Row], version: str, refused: dict[str, int]) -> str:
    """Return the page."""
    lines = [
        f"| {row['source']} | {row['gpu']} | {row['models']} | {row['runs']} | {row['both']} |"
        f" {_bold(row, *TOOLS)} | {_bold(row, *TOOLS[::-1])} |"
        f" {_ratio(row, TOOLS[0])} | {_ratio(row, TOOLS[1])} |"
        for row in rows
    ]
    known = [row for row in rows if row["both"]]
    ahead = sum(row["perfatlas"] <= row["aiconfigurator"] for row in known)
    summary = f"perfatlas is at least as accurate in {ahead} of {len(known)} rows (in bold)."
    reasons = "\n".join(f"- {count} x {reason}" for reason, count in refused.items()) or "- none"
    text = TEMPLATE.read_text("utf-8")
    return text.format(version=version, rows="\n".join(lines), summary=summary, refused=reasons)


def _bold(row: Row, name: str, other: str) -> str:
    if row[name] is None:
        return "-"
    text = f"{row[name]:.1%}"
    return f"**{text}**" if row[name] <= row[other] else text


def _ratio(row: Row, name: str) -> str:
    return "-" if row[f"{name}_ratio"] is None else f"{row[f'{name}_ratio']:.2f}"


def main() -> None:
    """Compare, and print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--aic-python", required=True, help="Python with aiconfigurator 0.12.0")
    parser.add_argument("--page", help="file to write")
    words = parser.parse_args()
    asked = runs()
    batch = batches(asked)
    ours, theirs = step_times(asked, batch), peer_times(asked, batch, words.aic_python)
    own, peer = ([predicted_s(step) for step in found["steps"]] for found in (ours, theirs))
    refused: dict[str, int] = {}
    for step in theirs["steps"]:
        if len(step) == 1:
            refused[step[0]] = refused.get(step[0], 0) + 1
    text = page(table(asked, own, peer), theirs["version"], refused)
    if words.page:
        Path(words.page).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
