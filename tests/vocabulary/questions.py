"""Questions whose answers together contain every metric, by verb and mode."""

from __future__ import annotations

import atexit
import shlex
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import count
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, Final, NamedTuple

import perfatlas
from perfatlas.answer import Answer
from perfatlas.declarations import FieldsSignature, example_of, function_homes, signature_of
from perfatlas.verbs import kernel
from perfatlas.verbs.collective import collective
from perfatlas.verbs.compare import compare
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.goodput import fleet_goodput, goodput, goodput_spares
from perfatlas.verbs.kernel_tune import kernel_tune
from perfatlas.verbs.schedule import fleet_schedule
from perfatlas.verbs.search import search
from perfatlas.verbs.simulate import max_request_rate, max_sessions, required_replicas, simulate
from perfatlas.verbs.train import search_training, train
from perfatlas.vocabulary.metrics import METRICS


class Question(NamedTuple):
    """A question: the function of a verb and its fields."""

    verb_function: Callable[..., Any]
    fields: dict[str, Any]

    def answer(self, **fields: Any) -> Answer:  # noqa: ANN401 - fields of any verb
        """Return the answer; to other fields, where they are given."""
        found = self.verb_function(**(fields or self.fields))
        answer: Answer = getattr(found, "answer", found)
        return answer


def _interrupted(**fields: Any) -> Any:  # noqa: ANN401 - as `max_request_rate`
    looks = count(1)
    return max_request_rate(**fields, progress=lambda _: next(looks) >= 12)


def _operator(name: str) -> Callable[..., Any]:
    return signature_of(f"kernel op {name}")(partial(kernel.kernel_op, name))


def _tuning(name: str) -> Callable[..., Any]:
    return signature_of(f"kernel tune {name}".rstrip())(partial(kernel_tune, name))


DAY_S: Final = 86400.0
MODEL: Final[dict[str, Any]] = {"model": "meta-llama/Llama-3.1-8B-Instruct", "system": "h200_sxm"}
SERVED: Final[dict[str, Any]] = {**MODEL, "isl": 256, "osl": 8, "num_requests": 40}
RATE: Final[dict[str, Any]] = {**SERVED, "request_rate": 20}
OPERATORS: Final = {
    "gemm": Question(kernel.kernel_gemm, {"system": "h200_sxm", "m": 64, "n": 512, "k": 512}),
    "attention": Question(kernel.kernel_attention, {
        "system": "h200_sxm", "phase": "decode", "batch": 4, "q_len": 1, "kv_len": 512,
        "num_heads": 32, "num_kv_heads": 8, "head_dim": 128}),
    "moe": Question(kernel.kernel_moe, {
        "system": "h200_sxm", "tokens": 64, "hidden": 2048, "intermediate": 768, "experts": 128,
        "top_k": 8}),
    "conv": Question(_operator("conv"), {
        "system": "h200_sxm", "batch": 8, "channels": 64, "height": 56, "width": 56,
        "filters": 64, "kernel": 3}),
    "elementwise": Question(_operator("elementwise"), {
        "system": "h200_sxm", "op": "activation", "tokens": 4096, "width": 4096}),
    **{name: Question(_operator(name), {"system": "h200_sxm", "tokens": 4096, "width": 4096})
       for name in ("norm", "softmax", "embedding")},
    "collective": Question(
        collective, {"system": "h200_sxm", "op": "all_reduce", "bytes": 1 << 20, "gpus": 8}),
}  # fmt: skip
ROWS: Final = {"system": "h100_sxm", "tokens": 64, "width": 4096}
TUNINGS: Final = {
    name: Question(_tuning(name), asked)
    for name, asked in {
        "gemm": {"system": "h100_sxm", "m": 16, "n": 4096, "k": 4096},
        "grouped_gemm": {
            "system": "h100_sxm", "tokens": 96, "hidden": 2048, "intermediate": 768,
            "experts": 128, "top_k": 8, "format": "fp8"},
        "attention": {
            "system": "h100_sxm", "phase": "decode", "batch": 16, "kv_len": 4096, "num_heads": 32,
            "num_kv_heads": 8},
        "norm": ROWS,
        "all_reduce": {**ROWS, "gpus": 8},
        "": {"model": MODEL["model"], "system": "h100_sxm", "batch": 16},
    }.items()
}  # fmt: skip
ESTIMATES: Final = {
    "estimate of a graph": Question(
        estimate, {"model": "resnet-50", "system": "h200_sxm", "gco2_per_kwh": 400.0}
    ),
    "static": Question(estimate, {**MODEL, "mode": "static"}),
    "static, uneven": Question(estimate, {**MODEL, "concurrency": 7, "dp": 2}),
    "aggregated": Question(estimate, {**MODEL, "mode": "aggregated", "concurrency": 8}),
    "aggregated, simulated": Question(
        estimate,
        {**MODEL, "mode": "aggregated", "concurrency": 64, "osl": 64, "method": "simulate"}),
    "aggregated, formula": Question(
        estimate, {**MODEL, "mode": "aggregated", "batch": 8, "gpus": 4, "method": "formula"}),
    "disaggregated": Question(estimate, {**MODEL, "mode": "disaggregated", "concurrency": 8}),
    "disaggregated, formula": Question(
        estimate, {**MODEL, "mode": "disaggregated", "prefill_tp": 2, "decode_batch": 4}),
    "split layers": Question(
        estimate, {**MODEL, "batch": 4, "feed_forward_system": "h200_sxm", "micro_batches": 2}),
    "experts": Question(
        estimate, {"model": "Qwen/Qwen3-30B-A3B", "system": "h200_sxm", "gpus": 4, "tp": 2,
                   "attention_dp": 2, "batch": 8, "format": "fp8"}),
}  # fmt: skip
SIMULATIONS: Final = {
    "one pool": Question(simulate, {**RATE, "slo_ttft_s": 1}),
    "steady state": Question(simulate, {**MODEL, "isl": 256, "osl": 8, "request_rate": 20}),
    "near capacity": Question(simulate, {**MODEL, "isl": 256, "osl": 8, "request_rate": 150}),
    "seeds": Question(simulate, {**RATE, "num_seeds": 2, "seed": 5}),
    "closed loop": Question(simulate, {**SERVED, "concurrency": 4}),
    "plan": Question(simulate, {**RATE, "gpus": 4, "engine": "sglang"}),
    "two pools": Question(simulate, {**RATE, "mode": "disaggregated"}),
    "kinds": Question(simulate, {**RATE, "replica_kinds": [{"dp": 2}, {"system": "a100_sxm"}]}),
    "failures": Question(
        simulate, {**RATE, "dp": 2, "replica_events": [{"replica": 0, "fails_at_s": 1}]}),
    "autoscaler": Question(simulate, {**RATE, "max_replicas": 2, "autoscale_target": 4}),
    "cache tiers": Question(simulate, {
        **RATE, "shared_prefix": 64, "turns": 2, "host_cache_bytes": "1GB",
        "ssd_cache_bytes": "1GB", "ssd_bandwidth": "1GB/s"}),
    "rejected": Question(simulate, {**RATE, "kv_blocks": 2}),
    "most sessions": Question(max_sessions, {
        **MODEL, "requests": "examples/agents/sessions.jsonl", "kv_blocks": 3000,
        "slo_ttft_s": 0.5, "slo_percentile": 90}),
    "largest rate": Question(max_request_rate, {**SERVED, "num_requests": 200, "slo_ttft_s": 0.1}),
    "fewest replicas": Question(required_replicas, {
        **RATE, "request_rate": 900, "slo_ttft_s": 0.1, "usd_per_gpu_hour": 2.0}),
    "fewest workers": Question(required_replicas, {
        **RATE, "mode": "disaggregated", "request_rate": 300, "slo_ttft_s": 0.1}),
}  # fmt: skip
JOB: Final[dict[str, Any]] = {
    "checkpoint_write_s": 60, "restart_s": 600, "half_width": 0.02, "gpus": 256, "spares": 3,
}  # fmt: skip
GOODPUT: Final = {
    "goodput": Question(goodput, {
        "mtti_s": 7200, "checkpoint_write_s": 60, "restart_s": 300, "gpus": 1024,
        "usd_per_gpu_hour": 2.0}),
    "goodput, simulated": Question(goodput, {
        "node_mtbf_s": 4e6, "gpus": 256, "checkpoint_write_s": 30, "restart_s": 300, "spares": 2,
        "repair_s": 86400, "duration_s": 20 * DAY_S, "half_width": 0.02}),
    "spares": Question(goodput_spares, {
        "nodes": 2048, "node_mtbf_s": 1e7, "repair_s": DAY_S, "target": 0.999}),
    "spares with crews": Question(goodput_spares, {
        "nodes": 256, "node_mtbf_s": 1e7, "repair_s": DAY_S, "spares": 9, "crews": 3}),
}  # fmt: skip
DRAWN: Final[dict[str, Any]] = {"num_jobs": 60, "load": 0.9, "nodes": 8}
FLEET: Final = """
units = 40
gpus_per_unit = 8
[[cause]]
name = "node"
per_unit = 1
detection = "2 min"
lifetime = { law = "exponential", mean = "40 d" }
repair = "swap"
[[repair]]
name = "swap"
stages = [ { name = "swap", lasts = { law = "exponential", mean = "1 d" } } ]
"""
STUDY: Final = """
model = "meta-llama/Llama-3.1-8B"
system = "h100_sxm"
gpus = 64
tp = 2
global_batch = 256
"""
JOBS: Final = "submit_s,run_s,gpus\n0,100,8\n1,50,16\n2,10,8\n"


def with_files(folder: Path) -> dict[str, Question]:
    """Return the questions about files, which are written first.

    Args:
        folder: Where to.
    """
    fleet, jobs = folder / "fleet.toml", folder / "jobs.csv"
    study = folder / "study.toml"
    fleet.write_text(FLEET, "utf-8")
    study.write_text(STUDY, "utf-8")
    jobs.write_text(JOBS, "utf-8")
    job = {**JOB, "fleet": str(fleet)}
    return {
        "fleet": Question(fleet_goodput, {**job, "duration_s": 20 * DAY_S, "mfu": 0.4,
                                       "usd_per_gpu_hour": 2.0, "what_if": True, "seed": 3}),
        "work": Question(fleet_goodput, {**job, "work_s": 9 * DAY_S, "finish_by_s": 12 * DAY_S,
                                      "usd_per_gpu_hour": 2.0}),
        "training": Question(goodput, {
            "train": str(study), "mtti_s": 9e4, "checkpoint_bytes_per_s": 1e10, "restart_s": 300,
            "tokens": 1e12, "usd_per_gpu_hour": 2.0}),
        "schedule": Question(fleet_schedule, {
            **DRAWN, "node_mtbf_s": 2e5, "repair_s": 7200.0, "compare": ["backfill=none,easy"]}),
        "stream": Question(fleet_schedule, {"load": 0.3, "nodes": 8}),
        "trace": Question(fleet_schedule, {"jobs": str(jobs), "nodes": 2}),
    }  # fmt: skip


def _declared(known: Iterable[Question]) -> Iterator[tuple[str, Question]]:
    """Yield the examples of commands of which no question is known, by their names."""
    commands = {one.verb_function.__signature__.question for one in known}  # type: ignore[attr-defined]
    for name in function_homes():
        verb_function = getattr(perfatlas, name)
        signature = getattr(verb_function, "__signature__", None)
        if isinstance(signature, FieldsSignature) and signature.question not in commands:
            words = example_of(signature.question).removeprefix(f"perfatlas {signature.question} ")
            pairs = dict(_fields_of(shlex.split(words)))
            yield signature.question, Question(verb_function, pairs)


def _fields_of(words: list[str]) -> Iterator[tuple[str, str]]:
    """Yield (field, value) of flags that each have one value."""
    for flag, value in zip(words[::2], words[1::2], strict=True):
        yield flag.removeprefix("--").replace("-", "_"), value


SHORTEST: Final = {
    "kernel gemm": OPERATORS["gemm"],
    "kernel attention": OPERATORS["attention"],
    "kernel moe": OPERATORS["moe"],
    **{
        f"kernel op {name}": OPERATORS[name]
        for name in ("conv", "norm", "softmax", "embedding", "elementwise")
    },
    **{f"kernel tune {name}".rstrip(): one for name, one in TUNINGS.items()},
    "collective": OPERATORS["collective"],
    "estimate": ESTIMATES["static"],
    "simulate": SIMULATIONS["one pool"],
    "goodput": GOODPUT["goodput"],
    "goodput spares": GOODPUT["spares"],
    "fleet schedule": Question(fleet_schedule, DRAWN),
    "train": Question(
        train, {"model": SERVED["model"], "system": "h100_sxm", "tp": 2, "global_batch": 8}
    ),
    "search": Question(search, {"model": SERVED["model"], "system": "h200_sxm", "gpus": 1}),
    "search training": Question(
        search_training,
        {"model": SERVED["model"], "system": "h100_sxm", "gpus": 8, "global_batch": 64},
    ),
}
# what the rows of metrics say they need beside the shortest question of their verb
OF_ROWS: Final = {
    f"for {metric.name}": Question(first.verb_function, {**first.fields, **metric.asked_with})
    for metric in METRICS.values()
    if metric.asked_with
    for first in (SHORTEST[metric.verbs[0]],)
}
TWO: Final = {"model": SERVED["model"], "system": "h100_sxm", "systems": ["h200_sxm"]}
COMPARED: Final = {
    "compare": Question(compare, dict(_fields_of(shlex.split(example_of("compare"))[2:]))),
    "decided": Question(compare, {**TWO, "decide": True}),
    "trained graph": Question(
        train, {"model": "resnet-50", "system": "h100_sxm", "gpus": 2, "global_batch": 8}
    ),
    "queue of a graph": Question(
        simulate,
        {"model": "resnet-50", "system": "h100_sxm", "max_num_seqs": 4, "request_rate": 900},
    ),
    "compared graphs": Question(
        compare, {"model": "resnet-50", "system": "h100_sxm", "systems": ["h200_sxm"]}
    ),
}
_LISTED: Final = {
    **OPERATORS,
    **{f"tune {name}": one for name, one in TUNINGS.items()},
    **ESTIMATES,
    **SIMULATIONS,
    **GOODPUT,
    **OF_ROWS,
    **COMPARED,
}
OF_FILES: Final = Question(fleet_schedule, {})
ASKED: Final = {**_LISTED, **dict(_declared([*_LISTED.values(), OF_FILES]))}
INTERRUPTED: Final = Question(_interrupted, {**SERVED, "num_requests": 200, "slo_ttft_s": 0.1})


@cache
def answered(name: str) -> Answer:
    """Return the answer to one of `ASKED`, computed once."""
    return ASKED[name].answer()


@cache
def questions_with_files() -> dict[str, Question]:
    """Return the questions about files, whose folder lasts as long as the process."""
    folder = mkdtemp(prefix="asked")
    atexit.register(rmtree, folder)
    return with_files(Path(folder))


@cache
def answered_with_files() -> dict[str, Answer]:
    """Return the answers to the questions about files, computed once."""
    return {name: one.answer() for name, one in questions_with_files().items()}
