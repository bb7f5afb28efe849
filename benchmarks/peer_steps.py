"""Runs in the Python of aiconfigurator 0.12: times of steps.

Reads a list of steps on standard input: model, system, backend, tp, formats, batch, context and
prompt. Writes {"version", "steps": [[decode_s, prefill_s] or [reason]]} on standard output.
"""

from __future__ import annotations

import contextlib
import json
import sys
from functools import cache
from importlib import metadata
from typing import Any

from aiconfigurator_core.sdk.engine import EngineHandle

FORMATS = {"bf16": "bfloat16", "fp8": "fp8", "nvfp4": "nvfp4"}


@cache
def _engine(model: str, system: str, backend: str, tp: int, formats: tuple[str, str, bool]) -> Any:  # noqa: ANN401 - a foreign, untyped API
    product, cache_format, experts = formats
    modes: dict[str, Any] = {
        "gemm_quant_mode": FORMATS[product],
        "kvcache_quant_mode": FORMATS[cache_format],
    }
    if experts:
        modes |= {"moe_quant_mode": FORMATS[product], "moe_tp_size": tp, "moe_ep_size": 1}
    return EngineHandle.compile(model, system, backend, tp_size=tp, **modes)


def _step(asked: dict[str, Any]) -> list[Any]:
    formats = (asked["format"], asked["kv_format"], asked["experts"])
    try:
        engine = _engine(asked["model"], asked["system"], asked["backend"], asked["tp"], formats)
        decode_ms = engine.predict_decode_latency(asked["batch"], asked["context"])
        prefill_ms = engine.predict_prefill_latency(1, asked["prompt"])
    except Exception as refused:  # noqa: BLE001 - any refusal of the peer is its answer
        return [f"{type(refused).__name__}: {refused}"[:100]]
    return [1e-3 * decode_ms, 1e-3 * prefill_ms]


def main() -> None:
    """Answer the steps."""
    asked = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        steps = [_step(one) for one in asked]
    json.dump({"version": metadata.version("aiconfigurator"), "steps": steps}, sys.stdout)


if __name__ == "__main__":
    main()
