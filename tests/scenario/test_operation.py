"""How replicas are operated, through the vocabulary."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

from perfatlas import simulate
from perfatlas.cli.operation import OperationFlags
from perfatlas.files import write_table
from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.operation import Operation

DEPLOYED: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B-Instruct", "system": "h200_sxm"}


def _talks(folder: Any) -> dict[str, Any]:
    """Requests of eight families, each with a beginning of 60 blocks of 16 tokens of its own."""
    rows: dict[str, list[Any]] = {"arrival_s": [], "isl": [], "osl": [], "prefix_hash_ids": []}
    draw = np.random.default_rng(1)
    for place in range(160):
        family = int(draw.integers(8))
        rows["arrival_s"].append(0.05 * place)
        rows["isl"].append(70 * 16)
        rows["osl"].append(20)
        shared = [1000 * family + block for block in range(60)]
        rows["prefix_hash_ids"].append([*shared, *(100_000 + 10 * place + k for k in range(10))])
    path = str(folder / "talks.jsonl")
    write_table(path, rows)
    return {**DEPLOYED, "dp": 4, "requests": path}


def test_the_flags_are_the_names_of_the_vocabulary_with_its_defaults() -> None:
    hints = get_type_hints(OperationFlags, include_extras=True)
    assert list(hints) == list(Operation.model_fields)
    routings = next(hint for hint in get_args(get_args(hints["routing"])[0]) if get_args(hint))
    assert get_args(routings) == get_args(Operation.model_fields["routing"].annotation)
    told = [
        (name, said.show_default)
        for name, hint in hints.items()
        for said in getattr(hint, "__metadata__", ())
        if isinstance(said.show_default, str)
    ]
    share, apart, ratio = Operation(routing="prefix_aware").affinity()
    assert dict(told) == {
        "routing": Operation().routing,
        "cache_threshold": f"{share:g}",
        "balance_abs_threshold": str(apart),
        "balance_rel_threshold": f"{ratio:g}",
    }


def test_following_prefixes_finds_more_of_them_in_the_cache(tmp_path: Any) -> None:
    asked = _talks(tmp_path)
    found = {
        routing: simulate(**asked, routing=routing).answer
        for routing in ("round_robin", "prefix_aware")
    }
    rates = {name: answer.results["prefix_hit_rate"] for name, answer in found.items()}
    # 8 families start 8 times on one replica each, or up to 4 times as often: 60 of 70 blocks
    assert rates["prefix_aware"] == pytest.approx((160 - 8) / 160 * 60 / 70, abs=0.02)
    assert rates["round_robin"] < rates["prefix_aware"] - 0.05
    said = found["prefix_aware"].evidence.assumptions
    assert any("sglang-router 0.3.2" in text and "30%" in text for text in said)


def test_thresholds_belong_to_their_routing() -> None:
    with pytest.raises(InvalidSpecError, match=r"cache_threshold = 0\.5 is that of routing"):
        simulate(**DEPLOYED, request_rate=5, cache_threshold=0.5)
    with pytest.raises(InvalidSpecError, match="balance_rel_threshold"):
        simulate(**DEPLOYED, request_rate=5, routing="prefix_aware", balance_rel_threshold=0.2)
    with pytest.raises(InvalidSpecError, match="routing"):
        simulate(**DEPLOYED, request_rate=5, routing="prefix")
