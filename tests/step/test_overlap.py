from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfatlas.engines import resolve_engine
from perfatlas.operators import Operator, Phase, Streaming
from perfatlas.step.fusion import exposed_share


def streaming(name: str) -> Operator:
    one = np.ones(1)
    return Streaming(
        name=name,
        phase=Phase.DECODE,
        count=one,
        stream="norm",
        tokens=one,
        read_bytes=one,
        write_bytes=one,
        cold_read_bytes=one,
    )


OPERATORS = [streaming("experts"), streaming("shared_expert_up"), streaming("shared_expert_down")]


@pytest.mark.parametrize(
    ("busy", "tokens", "shares"),
    [
        ([10.0, 3.0, 2.0], 64.0, [1.0, 0.0, 0.0]),  # 5 hides behind 10
        ([4.0, 3.0, 5.0], 64.0, [1.0, 0.5, 0.5]),  # 8 against 4: half of it shows
        ([10.0, 3.0, 2.0], 257.0, [1.0, 1.0, 1.0]),  # vLLM overlaps up to 256 tokens
    ],
)
def test_shared_experts_cost_what_exceeds_the_routed_ones(
    busy: list[float], tokens: float, shares: list[float]
) -> None:
    exposed = exposed_share(OPERATORS, np.array([busy]), resolve_engine("vllm"), np.array([tokens]))
    assert exposed[0].tolist() == shares


def test_an_engine_without_overlaps_exposes_everything() -> None:
    serial = replace(resolve_engine("vllm"), overlaps=())
    exposed = exposed_share(OPERATORS, np.ones((1, 3)), serial, np.ones(1))
    assert exposed.min() == 1.0
