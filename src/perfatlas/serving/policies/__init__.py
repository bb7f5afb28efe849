"""Schedulers of engines, a module each."""

from __future__ import annotations

from perfatlas.serving.policies.sglang import forget_ratio, schedule_sglang
from perfatlas.serving.policies.sglang_decode import schedule_sglang_decode
from perfatlas.serving.policies.trtllm import schedule_trtllm
from perfatlas.serving.policies.vllm import schedule_vllm

__all__ = [
    "forget_ratio",
    "schedule_sglang",
    "schedule_sglang_decode",
    "schedule_trtllm",
    "schedule_vllm",
]
