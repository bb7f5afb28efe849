"""Questions of `simulate`: schedulers, traffic, replicas, caches, pools, rate search, files."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING, Final

from tests.golden.draw import (
    DEEPSEEK,
    ENGINES,
    LLAMA_8B,
    LLAMA_70B,
    MODELS,
    TIERS,
    Draw,
    Fields,
    table_text,
)
from tests.golden.question import FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.golden.question import Question

SCHEDULERS: Final = (
    *("vllm", "sglang", "trtllm_guaranteed_no_evict", "trtllm_max_utilization", "static"),
)
FIXTURES: Final = FOLDER.parent / "serving" / "fixtures"
AZURE: Final = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2024-05-10 00:00:00.009930+00:00,2162,5\n2024-05-10 00:00:00.5+00:00,399,60\n"
    "2024-05-10 00:00:01+00:00,2399,16\n"
)
BASE: Final[Fields] = {"model": LLAMA_8B, "system": "h200_sxm"}


def simulations() -> list[Question]:
    """Return the questions of `simulate`."""
    strata = (_engines, _schedulers, _tight, _arrivals, _lengths, _sessions, _replicas, _kinds)
    more = (_events, _autoscaled, _offloaded, _pools, _speculative, _models, _objectives)
    last = (_formats, _limits, _files, _traces, _scenarios, _tables, _refusals)
    return [question for stratum in (*strata, *more, *last) for question in stratum()]


def _load(draw: Draw, *, most: int = 150) -> Fields:
    """Return traffic of a few requests."""
    return {
        "num_requests": draw.whole(20, most),
        "request_rate": draw.real(2, 60),
        "isl": draw.whole(32, 4096),
        "osl": draw.whole(4, 256),
        "seed": draw.whole(1, 99),
    }


def _ask(
    draw: Draw, *parts: Mapping[str, object], files: dict[str, str] | None = None, **more: object
) -> None:
    fields = {name: value for part in (*parts, more) for name, value in part.items()}
    draw.ask("simulate", fields, simulator="serving", files=files)


def _engines() -> list[Question]:
    draw = Draw("simulate-engines")
    for engine, tier in product(ENGINES, TIERS):
        model = draw.one(list(MODELS))
        fields = {"model": model, "system": draw.one(("h200_sxm", "b200_sxm")), "tp": MODELS[model]}
        _ask(draw, fields, _load(draw), engine=engine, tier=tier)
    measured = {**BASE, "tier": "measured", "engine": "sglang"}
    draw.ask("simulate", {**measured, **_load(draw)}, simulator="serving", silicon=True)
    return draw.questions


def _schedulers() -> list[Question]:
    draw = Draw("simulate-schedulers")
    for scheduler, chunked in product(SCHEDULERS, (None, True, False)):
        if scheduler == "static" and chunked is not None:
            continue
        chosen: Fields = {"scheduler": scheduler, "max_num_seqs": draw.whole(4, 64)}
        if chunked is not None:
            chosen[f"{'' if chunked else 'no-'}chunked-prefill"] = True
        _ask(draw, BASE, _load(draw), chosen)
    for mixed in ("mixed-chunk", "no-mixed-chunk"):
        _ask(draw, BASE, _load(draw), {mixed: True}, engine="sglang")
    return draw.questions


def _tight() -> list[Question]:
    """Few cache blocks: preemptions, waiting, evictions."""
    draw = Draw("simulate-tight")
    for scheduler in SCHEDULERS:
        for prefix in (False, True):
            chosen: Fields = {"scheduler": scheduler, "kv_blocks": draw.whole(300, 900)}
            if prefix and scheduler != "static":
                chosen |= {"prefix-caching": True, "shared_prefix": 256, "turns": 3}
            lengths = {"isl": draw.whole(64, 700), "osl": draw.whole(64, 400)}
            _ask(draw, BASE, _load(draw), chosen, lengths, request_rate=80)
    return draw.questions


def _arrivals() -> list[Question]:
    draw = Draw("simulate-arrivals")
    rate = draw.real(5, 30)
    shapes: tuple[Fields, ...] = (
        {"request_rate": "inf"},
        {"request_rate": rate, "arrival": "poisson"},
        {"request_rate": rate, "arrival": "gamma", "burstiness": 0.3},
        {"request_rate": rate, "arrival": "constant"},
        {"request_rate": rate, "arrival": "ramp", "ramp_to_rate": 60, "ramp_s": 10},
        {"request_rate": None, "concurrency": 8},
        {"request_rate": None, "concurrency": 8, "engine": "trtllm"},
        {"request_rate": None, "concurrency": 12, "dp": 2, "engine": "sglang"},
        {"num_seeds": 3},
        {"num_seeds": 2, "arrival": "gamma", "burstiness": 2, "engine": "sglang"},
    )
    for shape in shapes:
        _ask(draw, BASE, _load(draw), shape)
    return draw.questions


def _lengths() -> list[Question]:
    draw = Draw("simulate-lengths")
    sample = table_text([{"arrival_s": n, "isl": 90 * n + 9, "osl": 7 + n} for n in range(12)])
    for engine in ("vllm", "sglang"):
        for kind, spread in (("uniform", 0.4), ("lognormal", 0.6)):
            chosen = {"length_distribution": kind, "length_spread": spread, "engine": engine}
            _ask(draw, BASE, _load(draw), chosen)
        empirical = {"length_distribution": "empirical", "lengths_from": "sample.csv"}
        load = {"isl": None, "osl": None, "engine": engine}
        _ask(draw, BASE, _load(draw), empirical, load, files={"sample.csv": sample})
    return draw.questions


def _sessions() -> list[Question]:
    draw = Draw("simulate-sessions")
    for engine in ("vllm", "sglang", "trtllm"):
        for caching in ("prefix-caching", "no-prefix-caching"):
            talk = {"turns": draw.whole(2, 5), "think_time_s": draw.real(0.1, 2), caching: True}
            _ask(draw, BASE, _load(draw), talk, engine=engine, shared_prefix=draw.whole(100, 900))
    return draw.questions


def _replicas() -> list[Question]:
    draw = Draw("simulate-replicas")
    for routing in ("round_robin", "least_loaded", "random", "prefix_aware"):
        for engine in ("vllm", "sglang"):
            chosen = {"dp": draw.whole(2, 5), "routing": routing, "engine": engine}
            talk = {"turns": 3, "shared_prefix": 200, "prefix-caching": True}
            _ask(draw, BASE, _load(draw), chosen, talk)
    thresholds = {"cache_threshold": 0.6, "balance_abs_threshold": 4, "balance_rel_threshold": 1.1}
    chosen = {"dp": 3, "routing": "prefix_aware", "prefix-caching": True, "turns": 4}
    _ask(draw, BASE, _load(draw), chosen, thresholds)
    _ask(draw, {"model": DEEPSEEK, "system": "h200_sxm"}, _load(draw), attention_dp=8, ep=8)
    return draw.questions


def _kinds() -> list[Question]:
    draw = Draw("simulate-kinds")
    plans: tuple[list[Fields], ...] = (
        [{"system": "h200_sxm", "tp": 2, "dp": 2}, {"system": "b200_sxm", "dp": 2}],
        [{"system": "h200_sxm", "engine": "vllm"}, {"system": "h200_sxm", "engine": "sglang"}],
        [{"engine": "trtllm", "dp": 2}, {"engine": "vllm", "max_num_seqs": 8}],
        [{"format": "fp8"}, {"kv_blocks": 400}, {"system": "h100_sxm", "tp": 2}],
    )
    for plan, routing in product(plans, ("round_robin", "least_loaded")):
        chosen: Fields = {"replica_kinds": json.dumps(plan), "routing": routing}
        _ask(draw, BASE, _load(draw), chosen)
    return draw.questions


def _events() -> list[Question]:
    draw = Draw("simulate-events")
    for kind, failure, engine in product(("crash", "drain"), ("retry", "lost"), ("vllm", "sglang")):
        events = [
            {"replica": 0, "fails_at_s": draw.real(0.2, 2), "down_for_s": 1.5, "kind": kind},
            {"replica": 1, "fails_at_s": draw.real(0.5, 3), "back_at_s": 4, "kind": kind},
        ]
        chosen: Fields = {"dp": 3, "on_failure": failure, "engine": engine}
        if failure == "retry":
            chosen["retry_after_s"] = draw.one((0, 0.3))
        _ask(draw, BASE, _load(draw), chosen, {"replica_events": json.dumps(events)})
    return draw.questions


def _autoscaled() -> list[Question]:
    draw = Draw("simulate-autoscaled")
    for metric, engine in product(("requests", "waiting"), ("vllm", "trtllm")):
        chosen = {
            "max_replicas": draw.whole(3, 6),
            "autoscale_target": draw.whole(2, 20),
            "autoscale_metric": metric,
            "autoscale_period_s": 1,
            "autoscale_down_after_s": 5,
            "start_up_s": draw.real(0.5, 4),
            "engine": engine,
        }
        _ask(draw, BASE, _load(draw, most=300), chosen, request_rate=draw.whole(20, 60))
    return draw.questions


def _offloaded() -> list[Question]:
    draw = Draw("simulate-offloaded")
    for index in range(5):
        rows = [
            {
                "arrival_s": 0.5 * n,
                "isl": 1120,
                "osl": draw.whole(2, 40),
                "prefix_hash_ids": " ".join(str(1000 * (n % 3) + block) for block in range(70)),
            }
            for n in range(24)
        ]
        tiers: Fields = {"host_cache_bytes": draw.one(("300MB", "1GB", "20GB"))}
        if index % 2:
            tiers |= {"ssd_cache_bytes": "4GB", "ssd_bandwidth": "7GB/s"}
        if index == 2:
            tiers["host_bandwidth"] = "5GB/s"
        fields = {**BASE, "requests": "r.csv", "kv_blocks": draw.whole(90, 300), **tiers}
        _ask(draw, fields, files={"r.csv": table_text(rows)})
    return draw.questions


def _pools() -> list[Question]:
    draw = Draw("simulate-pools")
    for engine in ("vllm", "sglang", "trtllm"):
        for model, tp in ((LLAMA_8B, 1), (LLAMA_70B, 4)):
            pools = {
                "mode": "disaggregated",
                "prefill_workers": draw.whole(1, 3),
                "prefill_tp": tp,
                "prefill_batch": draw.whole(1, 4),
                "decode_workers": draw.whole(1, 3),
                "decode_tp": tp,
                "decode_batch": draw.power(2, 6),
            }
            fields = {"model": model, "system": "h200_sxm", "engine": engine}
            _ask(draw, fields, pools, _load(draw))
    systems = {"prefill_system": "b200_sxm", "decode_system": "h200_sxm", "mode": "disaggregated"}
    _ask(draw, {"model": LLAMA_8B}, systems, _load(draw), decode_workers=2)
    return draw.questions


def _speculative() -> list[Question]:
    draw = Draw("simulate-speculative")
    for depth in (1, 2, 4):
        drafts = {"speculative_depth": depth, "speculative_acceptance": draw.real(0.4, 0.9)}
        _ask(draw, BASE, _load(draw), drafts)
    drafts = {"speculative_depth": 2, "speculative_acceptance": 0.6, "kv_blocks": 500}
    _ask(draw, BASE, _load(draw), drafts, dp=2)
    return draw.questions


def _models() -> list[Question]:
    draw = Draw("simulate-models")
    for model, tp in MODELS.items():
        engine = draw.one(("vllm", "sglang", "trtllm"))
        _ask(draw, {"model": model, "system": "h200_sxm", "tp": tp, "engine": engine}, _load(draw))
    return draw.questions


def _objectives() -> list[Question]:
    draw = Draw("simulate-objectives")
    slo = {"slo_ttft_s": 0.5, "slo_tpot_s": 0.02}
    _ask(draw, BASE, _load(draw), slo)
    _ask(draw, BASE, _load(draw), {"slo_itl_s": 0.01, "slo_request_latency_s": 2})
    for engine, percentile in (("vllm", None), ("sglang", 90), ("trtllm", 99)):
        find: Fields = {"find_rate": True, "slo_percentile": percentile, "engine": engine}
        _ask(draw, BASE, _load(draw, most=60), slo, find, request_rate=None)
    return draw.questions


def _formats() -> list[Question]:
    draw = Draw("simulate-formats")
    for name in ("fp8", "fp8_block", "nvfp4", "int4_wo"):
        model = draw.one((LLAMA_8B, "Qwen/Qwen3-30B-A3B"))
        _ask(draw, {"model": model, "system": "b200_sxm", "format": name}, _load(draw))
    _ask(draw, BASE, _load(draw), kv_format="fp8", attention_format="fp8")
    return draw.questions


def _limits() -> list[Question]:
    draw = Draw("simulate-limits")
    limits: tuple[Fields, ...] = (
        {"max_num_batched_tokens": 512},
        {"block_size": 32, "gpu_memory_utilization": 0.5},
        {"stream_interval": 5},
        {"measured_at": "engine"},
        {"prompt_text": "random"},
        {"clock_ratio": 0.7, "engine": "sglang"},
        {"max_num_seqs": 3, "engine": "trtllm"},
        {"tp": 4, "expert_distribution": "balanced", "model": "Qwen/Qwen3-30B-A3B"},
    )
    for limit in limits:
        _ask(draw, BASE, _load(draw), limit)
    return draw.questions


def _files() -> list[Question]:
    """Tables of per-request results, and Chrome traces."""
    draw = Draw("simulate-files")
    for index, engine in enumerate(("vllm", "sglang", "trtllm")):
        output = f"r{('.csv', '.jsonl', '.parquet')[index]}"
        fields = {**BASE, **_load(draw, most=35), "engine": engine, "per_request": output}
        draw.ask("simulate", fields, simulator="serving", tables=[output])
    fields = {**BASE, **_load(draw, most=300), "per_request": "r.csv", "trace": "t.json"}
    draw.ask("simulate", {**fields, "html": "p.html"}, simulator="serving", tables=["r.csv"])
    return draw.questions


def _traces() -> list[Question]:
    draw = Draw("simulate-traces")
    hashes = [
        {"timestamp": 400 * n, "input_length": 512 * (n % 4 + 1), "output_length": 9 + n}
        | {"hash_ids": [n % 2, *range(10, 10 + n % 4)]}
        for n in range(16)
    ]
    texts = {
        "azure": AZURE,
        "mooncake": "".join(json.dumps(row) + "\n" for row in hashes),
        "burstgpt": (FIXTURES / "burstgpt_sessions.csv").read_text("utf-8"),
        "bailian": (FIXTURES / "bailian.jsonl").read_text("utf-8"),
        "vllm": (FIXTURES / "vllm_bench.json").read_text("utf-8"),
        "aiperf": (FIXTURES / "aiperf_profile_export.jsonl").read_text("utf-8"),
    }
    endings = {"azure": "csv", "burstgpt": "csv", "vllm": "json"}
    for name, text in texts.items():
        path = f"trace.{endings.get(name, 'jsonl')}"
        fields = {**BASE, "requests": path, "request_format": name, "engine": draw.one(ENGINES)}
        _ask(draw, fields, files={path: text})
    rows = [
        {"arrival_s": round(0.21 * n, 2), "isl": 100 + 9 * n, "osl": 5 + n % 40} for n in range(60)
    ]
    windows: tuple[Fields, ...] = (
        {"rate_scale": 3},
        {"length_scale": 0.5, "num_requests": 30},
        {"requests_from_s": 2, "requests_to_s": 9},
    )
    for window in windows:
        _ask(draw, BASE, window, files={"r.csv": table_text(rows)}, requests="r.csv")
    return draw.questions


def _scenarios() -> list[Question]:
    draw = Draw("simulate-scenario")
    for routing in ("round_robin", "least_loaded"):
        text = (
            f'model = "{LLAMA_8B}"\nsystem = "h200_sxm"\nrouting = "{routing}"\ndp = 3\n'
            f"request_rate = {draw.whole(10, 50)}\nnum_requests = 80\nisl = 300\nosl = 60\n"
            "replica_events = [{ replica = 2, fails_at_s = 0.6, down_for_s = 1 }]\n"
        )
        _ask(draw, {"scenario": "s.toml", "engine": "sglang"}, files={"s.toml": text})
    kinds = (
        f'model = "{LLAMA_8B}"\nrequest_rate = 40\nnum_requests = 80\n'
        'replica_kinds = [{ system = "h200_sxm", dp = 2 }, { system = "b200_sxm" }]\n'
    )
    _ask(draw, {"scenario": "s.toml"}, files={"s.toml": kinds})
    return draw.questions


def _tables() -> list[Question]:
    draw = Draw("simulate-table")
    for index in range(4):
        rows = [
            {**BASE, **_load(draw, most=60), "engine": engine, "dp": draw.whole(1, 3)}
            for engine in ENGINES
        ]
        rows[0] |= {"scheduler": draw.one(SCHEDULERS)}
        if index == 1:
            rows += [{**BASE, "isl": -1, "request_rate": 1}, {"model": LLAMA_8B}]
        output = f"o{('.csv', '.parquet')[index % 2]}"
        fields = {"table": "t.csv", "output": output}
        files = {"t.csv": table_text(rows)}
        draw.ask("simulate", fields, simulator="serving", files=files, tables=[output])
    return draw.questions


def _refusals() -> list[Question]:
    draw = Draw("simulate-refusal")
    refused: tuple[Fields, ...] = (
        {},
        {"request_rate": 1, "concurrency": 4},
        {"request_rate": 0},
        {"request_rate": 1, "mixed-chunk": True},
        {"request_rate": 1, "slo_percentile": 90},
        {"request_rate": 1, "tp": 2, "pp": 2},
        {"requests": "none.csv"},
        {"request_rate": 1, "kv_blocks": 2, "isl": 4000},
        {"request_rate": 1, "scheduler": "none"},
        {"request_rate": 1, "engine": "sglang", "host_cache_bytes": "1GB"},
        {"request_rate": 1, "replica_events": "[{"},
        {"request_rate": 1, "replica_kinds": '[{"tp": 3}]'},
    )
    for fields in refused:
        _ask(draw, BASE, fields)
    return draw.questions
