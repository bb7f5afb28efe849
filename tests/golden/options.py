"""Changes every field of golden questions alone: `python -m tests.golden.options`.

A change moves a number of the answer, is refused, or the answer says that it has no effect. Prints
every change that does none of these, and exits 1 if there is any.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import perfatlas
from perfatlas.declarations import verb_fields
from perfatlas.quantities import PerfatlasError
from tests.golden.question import read_questions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Fields = dict[str, Any]
# legal values of each field, far enough from those of the questions to be felt
OTHERS: Final[dict[str, tuple[Any, ...]]] = {
    "model": ("meta-llama/Llama-3.2-3B", "Qwen/Qwen3-30B-A3B"),
    "system": ("a100_sxm", "h20"),
    "engine": ("sglang", "trtllm", "ideal"),
    "tier": ("bound", "physics"),
    "silicon_version": ("0.20.1", "0.19.0"),
    "clock_ratio": (0.5, 0.7),
    "mode": ("static", "aggregated", "disaggregated"),
    "method": ("simulate", "formula"),
    "gpus": (8, 16),
    "tp": (2, 4),
    "pp": (2, 4),
    "cp": (2, 4),
    "attention_dp": (2, 4),
    "ep": (2, 4),
    "moe_tp": (2, 4),
    "dp": (2, 3),
    "expert_distribution": ("balanced", "power_law_1.2"),
    "format": ("fp8", "int8"),
    "gemm_format": ("fp8", "int8"),
    "moe_format": ("fp8_block", "fp8"),
    "kv_format": ("fp8", "bf16"),
    "attention_format": ("fp8", "bf16"),
    "batch": (3, 5),
    "concurrency": (3, 5),
    "isl": (700, 900),
    "osl": (30, 60),
    "prefix": (16, 32),
    "max_num_seqs": (1, 2),
    "max_num_batched_tokens": (16, 32),
    "block_size": (7, 300),
    "gpu_memory_utilization": (0.5, 0.7),
    "kv_blocks": (999, 777),
    "stream_interval": (7, 8),
    "speculative_depth": (2, 3),
    "speculative_acceptance": (0.3, 0.5),
    "prefill_workers": (2, 3),
    "prefill_batch": (2, 3),
    "decode_workers": (2, 3),
    "decode_batch": (2, 3),
    **{f"{pool}_system": ("a100_sxm", "h20") for pool in ("prefill", "decode")},
    **{
        f"{pool}_{size}": (2, 4)
        for pool in ("prefill", "decode")
        for size in ("tp", "pp", "cp", "attention_dp", "ep", "moe_tp")
    },
    "requests": ("no_such_file.csv",),
    "request_format": ("azure_llm", "mooncake"),
    "request_rate": (3.0, 7.0),
    "num_requests": (30, 35),
    "arrival": ("constant", "gamma", "closed"),
    "burstiness": (0.3, 2.0),
    "ramp_to_rate": (50.0, 60.0),
    "ramp_s": (5.0, 6.0),
    "turns": (2, 3),
    "think_time_s": (1.0, 2.0),
    "shared_prefix": (64, 128),
    "length_distribution": ("uniform", "lognormal"),
    "length_spread": (0.3, 0.7),
    "lengths_from": ("no_such_file.csv",),
    "rate_scale": (2.0, 3.0),
    "length_scale": (2.0, 3.0),
    "requests_from_s": (1.0, 2.0),
    "requests_to_s": (3.0, 4.0),
    "spread_batches": (True,),
    "seed": (77, 78),
    "num_seeds": (2, 3),
    "prompt_text": ("random", "natural"),
    "prefix_caching": (False, True),
    "scheduler": ("sglang", "vllm", "static"),
    "chunked_prefill": (False, True),
    "mixed_chunk": (True, False),
    "measured_at": ("engine", "client"),
    "slo_ttft_s": (0.1, 0.2),
    "slo_tpot_s": (0.01, 0.02),
    "slo_itl_s": (0.01, 0.02),
    "slo_request_latency_s": (1.0, 2.0),
    "slo_percentile": (90.0, 99.0),
    "replica_kinds": ([{"dp": 1}, {"dp": 1, "system": "a100_sxm"}],),
    "routing": ("least_loaded", "random"),
    "cache_threshold": (0.3, 0.7),
    "balance_abs_threshold": (2, 3),
    "balance_rel_threshold": (1.1, 1.2),
    "replica_events": ([{"replica": 0, "fails_at_s": 0.5, "back_at_s": 1.0}],),
    "on_failure": ("lost", "retry"),
    "retry_after_s": (1.0, 2.0),
    "max_replicas": (3, 4),
    "min_replicas": (2, 3),
    "autoscale_target": (2.0, 3.0),
    "autoscale_metric": ("waiting", "requests"),
    "autoscale_period_s": (1.0, 2.0),
    "autoscale_tolerance": (0.3, 0.5),
    "autoscale_down_after_s": (1.0, 2.0),
    "start_up_s": (1.0, 2.0),
    "host_cache_bytes": ("3GB", "2GB"),
    "host_bandwidth": ("3GB/s", "2GB/s"),
    "ssd_cache_bytes": ("3GB", "2GB"),
    "ssd_bandwidth": ("3GB/s", "2GB/s"),
}


class Change(NamedTuple):
    """One field of one question changed.

    Args:
        question: Name of the question.
        field: The field.
        value: Its other value.
        outcome: "moved", "refused", "remarked" or "ignored".
    """

    question: str
    field: str
    value: Any
    outcome: str


def asked_of(verb: str) -> dict[str, Fields]:
    """Return the fields of golden questions of a verb, those with files and tables left out.

    Args:
        verb: estimate or simulate.
    """
    rows = verb_fields(verb)
    found: dict[str, Fields] = {}
    for question in read_questions():
        words = [*question.commands[0]]
        if (
            question.verb != verb
            or question.files
            or question.silicon
            or "refusal" in question.name
        ):
            continue
        fields: Fields = {}
        plain = len(question.commands) == 1
        for word, value in zip(words[1:], [*words[2:], "--"], strict=True):
            if word.startswith("--") and word != "--":
                name = word.removeprefix("--").replace("-", "_")
                bare = value.startswith("--")
                if name in rows:
                    fields[name] = bare or value
                elif name != "json":
                    plain = False
        if plain:
            found[question.name] = fields
    return found


def _others(fields: Fields, name: str) -> list[Any]:
    """Return values of a field that a question does not have, given or by default."""
    rows = {**verb_fields("simulate"), **verb_fields("estimate")}
    now = str(fields.get(name, rows[name].default))
    return [value for value in OTHERS[name] if str(value) != now]


def estimated(questions: dict[str, Fields], names: Iterable[str]) -> Iterator[Change]:
    """Yield every change of estimates, a table for each field and value.

    Further values are tried where the first is ignored: it may be what holds by default.

    Args:
        questions: Fields by the names of the questions.
        names: The fields to change.
    """
    before = dict(zip(questions, _estimates(list(questions.values())), strict=True))
    for name in names:
        left = {question: _others(fields, name) for question, fields in questions.items()}
        for place in range(len(OTHERS[name])):
            asked = {one: v[place] for one, v in left.items() if place < len(v)}
            rows = [{**questions[one], name: value} for one, value in asked.items()]
            for one, new in zip(asked, _estimates(rows), strict=True):
                outcome = _compared(name, before[one], new)
                if outcome != "ignored" or place == len(left[one]) - 1:
                    yield Change(one, name, asked[one], outcome)
                    del left[one]


def _estimates(rows: Sequence[Fields]) -> list[Fields]:
    names = dict.fromkeys(name for row in rows for name in row)
    columns = perfatlas.estimate_table({n: [row.get(n) for row in rows] for n in names}).columns
    return [{name: cells[n] for name, cells in columns.items()} for n in range(len(rows))]


def _compared(name: str, old: Fields, new: Fields) -> str:
    if new["error"]:
        return "refused"
    numbers = [
        {k: v for k, v in one.items() if k != "warnings" and v is not None} for one in (old, new)
    ]
    if numbers[0] != numbers[1]:
        return "moved"
    said = set(new["warnings"].split("; ")) - set(old["warnings"].split("; "))
    return "remarked" if any(name in text for text in said) else "ignored"


def simulated(questions: dict[str, Fields], names: Iterable[str]) -> Iterator[Change]:
    """Yield every change of simulations.

    Args:
        questions: Fields by the names of the questions.
        names: The fields to change.
    """
    names = list(names)
    for question, fields in questions.items():
        old = _simulation(fields)
        for name in names:
            for value in _others(fields, name):
                outcome = _answered(name, old, _simulation({**fields, name: value}))
                if outcome != "ignored":
                    break
            yield Change(question, name, value, outcome)


def _answered(name: str, old: Any, new: Any) -> str:  # noqa: ANN401 - answers, or texts of refusals
    if isinstance(old, str) or isinstance(new, str):
        return "refused"
    if new.results != old.results:
        return "moved"
    remarks = [{*one.evidence.assumptions, *one.warnings} for one in (old, new)]
    return "remarked" if any(name in text for text in remarks[1] - remarks[0]) else "ignored"


def _simulation(fields: Fields) -> Any:  # noqa: ANN401 - an answer, or the text of a refusal
    try:
        return perfatlas.simulate(**fields).answer
    except PerfatlasError as problem:
        return str(problem)


def sample(verb: str, size: int, seed: int = 0) -> dict[str, Fields]:
    """Return some golden questions of a verb.

    Args:
        verb: estimate or simulate.
        size: How many.
        seed: Seed of the draw.
    """
    asked = asked_of(verb)
    chosen = random.Random(seed).sample(sorted(asked), min(size, len(asked)))  # noqa: S311
    return {name: asked[name] for name in chosen}


def main(words: Sequence[str] | None = None) -> int:
    """Return 0 where no change is ignored, else 1.

    Args:
        words: Words of the command line.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verb", choices=("estimate", "simulate"), default="estimate")
    parser.add_argument("--size", type=int, default=10**6, help="questions, drawn by a seed")
    parser.add_argument("--fields", nargs="*", help="by default all")
    asked = parser.parse_args(words)
    questions = sample(asked.verb, asked.size)
    names = asked.fields or [name for name in verb_fields(asked.verb) if name in OTHERS]
    ways = {"estimate": estimated, "simulate": simulated}
    counts: Counter[str] = Counter()
    for change in ways[asked.verb](questions, names):
        counts[change.outcome] += 1
        if change.outcome == "ignored":
            sys.stdout.write(f"{change.question}: {change.field} = {change.value} is ignored\n")
    sys.stdout.write(f"{len(questions)} questions: {dict(counts)}\n")
    return 1 if counts["ignored"] else 0


if __name__ == "__main__":
    sys.exit(main())
