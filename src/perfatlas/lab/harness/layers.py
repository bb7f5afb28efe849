"""Operators of a model under a plan as cases: the layers of one rank in one step.

Shape legend: C candidates; here always one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.lab.harness.cases import LAYERS, Case, Work
from perfatlas.networks import ModelFormats, StepTokens, resolve_model
from perfatlas.operators import Attention, Collective, Gemm, GroupedGemm, Phase, Streaming
from perfatlas.parallelism import PlanColumns, shard_operators

if TYPE_CHECKING:
    from perfatlas.operators import Operator

PHASES: Final = (Phase.PREFILL, Phase.DECODE)
# Streaming kernels that the harness has; others are timed as a copy of their bytes.
_KERNELS: Final = {"norm": "norm", "activation": "silu_mul"}
_WIDTH: Final = 2.0  # bytes of an activation


def layer_cases(
    model: str, *, number_format: str = "bf16", batch: int = 1, isl: int = 128, tp: int = 1
) -> list[Case]:
    """Return the distinct operators of one rank in a prefill and in a decode step.

    Args:
        model: Hugging Face id or config of a model.
        number_format: Format of its products.
        batch: Sequences.
        isl: Tokens of each prompt, and keys of each decoding sequence.
        tp: Tensor-parallel ranks; experts are divided too.
    """
    network = resolve_model(model).network
    names = dict.fromkeys(("gemm", "moe", "kv", "attention", "head"), number_format)
    formats, column = ModelFormats(**names, modules=()), np.ones(1)
    ranks = column * tp
    sizes = dict.fromkeys(
        ("pp", "cp", "attention_dp", "ep", "dp", "ring_degree", "guidance_degree", "dcp"), column
    )
    plan = PlanColumns(tp=ranks, moe_tp=ranks, **sizes)
    cases: dict[str, Case] = {}
    for phase in PHASES:
        q_len = column * (isl if phase is Phase.PREFILL else 1)
        tokens = StepTokens(
            batch=column * batch, q_len=q_len, kv_len=column * isl, head_ranks=ranks
        )
        whole = network.step_operators(formats, phase, tokens)
        running = (
            shard_operator
            for shard_operator in shard_operators(whole, plan, network)
            if int(shard_operator.count[0])
        )
        for case in map(operator_case, running):
            before = cases.get(case.label)
            count = case.count + (before.count if before else 0)
            cases[case.label] = Case(**{**vars(case), "count": count})
    return list(cases.values())


def operator_case(operator: Operator, system: str = "") -> Case:
    """Return the first candidate of an operator as a case.

    Args:
        system: Device that it is to be measured on; "" for any.
    """
    kind, shape, number_format, arm = _described(operator)
    work, is_exchange = operator.work(), isinstance(operator, Collective)
    moved = work.cold_bytes + work.activation_bytes
    if isinstance(operator, Collective):
        moved = operator.bytes
    return Case(
        suite=LAYERS,
        operator=kind,
        shape={name: max(int(value), 1) for name, value in shape.items()},
        format=number_format,
        data="hot" if is_exchange or isinstance(operator, Streaming) else "cold",
        arms=(arm,),
        work=Work(
            flop=float(np.ravel(work.flop)[0]),
            bytes=float(np.ravel(moved)[0]),
        ),
        priced=None if is_exchange else operator,
        count=int(operator.count[0]),
        name=f"{operator.phase.value} {operator.name}",
        system=system,
    )


def _described(operator: Operator) -> tuple[str, dict[str, Any], str, str]:
    """Return kind, sizes, format and implementation of an operator."""

    def sizes(*names: str) -> dict[str, Any]:
        return {name: np.ravel(getattr(operator, name))[0] for name in names}

    if isinstance(operator, Gemm) and np.all(np.asarray(operator.groups) == 1.0):
        return "gemm", sizes("m", "n", "k"), operator.format, "torch"
    if isinstance(operator, Attention):
        names = ("batch", "kv_len", "num_heads", "num_kv_heads", "head_dim")
        shape, window = sizes(*names), float(operator.window[0])
        is_windowed = 0.0 < window < shape["kv_len"]
        if operator.q_len[0] == 1:  # over the keys in the window
            shape["kv_len"] = window if is_windowed else shape["kv_len"]
            return "decode_attention", shape, operator.format, "sdpa"
        if is_windowed:
            shape = {**sizes(*names, "q_len"), "window": window}
            return "windowed_attention", shape, operator.format, "sdpa"
        return "prefill_attention", sizes(*names, "q_len"), operator.format, "sdpa"
    if isinstance(operator, GroupedGemm):
        shape = sizes("tokens", "hidden", "intermediate", "experts", "top_k", "ep", "moe_tp")
        shape["intermediate"] = shape["intermediate"] / shape.pop("moe_tp")
        if shape.pop("ep") == 1.0:
            return "moe", shape, operator.format, "torch"
    if isinstance(operator, Streaming):
        kernel = _KERNELS.get(operator.stream, "copy")
        read, written = float(operator.read_bytes[0]), float(operator.write_bytes[0])
        moved = (
            written
            if kernel != "copy"
            else (read + written + float(np.ravel(operator.cold_read_bytes)[0])) / 2.0
        )
        tokens = max(1, int(operator.tokens[0]))
        width = max(1, round(moved / _WIDTH / tokens))
        return kernel, {"tokens": tokens, "width": width}, "bf16", "torch"
    shape, kind, arm = {}, operator.kind, "torch"
    if isinstance(operator, Collective):
        shape, kind, arm = sizes("ranks", "bytes"), operator.op, "torch_distributed"
    return kind, shape, "bf16", arm
