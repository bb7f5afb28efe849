"""Prompts that served runs sent several times, and the share of them in the prefix cache.

Shape legend: N runs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from perfatlas.inference import evaluate
from perfatlas.scenario.resolution import resolve
from validation.power.splits import power_splits
from validation.scoring import data_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LARGE_MEMORY: Final = "4TB"
BLOCK: Final = 16  # tokens of a cache block of vLLM; the last one of a prompt is computed again


def with_cached_prompts(
    rows: Sequence[Mapping[str, str]], fields: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return scenarios with the mean cached prefix of their requests.

    The mean batch of a run did fit in its cache, as sequences share the blocks of repeated prompts:
    where it does not with the assumed lengths, the memory is larger.

    Args:
        rows: Rows of the file (N).
        fields: Their scenarios without cached prefixes (N).

    Source: rule of `[served.repeats]` in validation/data/power.toml.
    """
    return [
        field | _cached(row, field, capacity)
        for row, field, capacity in zip(rows, fields, _capacities(fields), strict=True)
    ]


def _capacities(fields: Sequence[dict[str, Any]]) -> list[float]:
    """Return the KV tokens of each deployment (N), NaN without an answer."""
    resolution = resolve({name: [field[name] for field in fields] for name in fields[0]})
    found = [math.nan] * len(fields)
    for group in resolution.groups:
        if group.pools[0] is None:
            continue
        rows_C, question = group.pools[0]
        tokens_C = evaluate(question).memory.kv_capacity_tokens * question.plan.attention_dp
        for row, tokens in zip(rows_C.tolist(), tokens_C.tolist(), strict=True):
            found[row] = tokens
    return found


def _cached(row: Mapping[str, str], fields: Mapping[str, Any], capacity: float) -> dict[str, Any]:
    """Return the cached prefix of a run, and its system, with the memory that its batch needs."""
    isl, osl, batch = fields["isl"], fields["osl"], fields["concurrency"]
    ranks, system = fields["attention_dp"] or 1, fields["system"]
    if batch * (isl + osl) > capacity:
        system = f"{system}{{device.memory.capacity={LARGE_MEMORY}}}"
    share = repeated_share(row) * kept_share(
        batch, isl, osl, _requests(row), max(capacity - batch * (isl + osl / 2), 0.0)
    )
    return {"prefix": min(round(share / ranks * isl), isl - BLOCK), "system": system}


def repeated_share(row: Mapping[str, str]) -> float:
    """Return the share of the requests that begin in the window and were sent before.

    Args:
        row: The row of a run.
    """
    running, requests = int(row["max_num_seqs"]), _requests(row)
    total = requests * _repeats(row)
    return (total - max(running, requests)) / (total - running)


def kept_share(batch: float, isl: float, osl: float, requests: float, free: float) -> float:
    """Return the share of repeated prompts that still run or are still cached.

    Args:
        batch: Mean running sequences.
        isl: Tokens of a prompt.
        osl: Output tokens.
        requests: Requests between two of the same prompt.
        free: Tokens of the cache that hold no running sequence.

    Limits: Residence times are exponential, blocks are reused in the order in which requests end.

    Example:
        >>> from validation.power.cached_prompts import kept_share
        >>> kept_share(512, 570, 630, 1024, 1024 * 1200.0)
        1.0
        >>> round(kept_share(1024, 570, 630, 1024, 0.0), 3)
        0.368
    """
    return math.exp(-max(requests - free / (isl + osl), 0.0) / batch)


def _requests(row: Mapping[str, str]) -> int:
    return int(power_splits().served["repeats"]["requests"][row["task"]])


def _repeats(row: Mapping[str, str]) -> int:
    """Return how often a run sent each of its requests."""
    run = row["task"], row["model"], row["gpu"]
    for setting in data_rows(power_splits().served["repeats"]["file"]):
        named = setting["task"], setting["model"], setting["gpu"]
        gpus, sizes = setting["n_gpus"], setting["max_num_seqs"].split()
        if named == run and gpus in ("", row["n_gpus"]) and row["max_num_seqs"] in sizes:
            return int(setting["repeats"])
    return 1
