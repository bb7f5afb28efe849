"""A faster rate at one plan never lengthens a training step, in random training steps."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

import pytest

from perfatlas.verbs.train import train_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    Fields = dict[str, Any]

DENSE: Final = ("meta-llama/Llama-3.1-8B", "Qwen/Qwen3-0.6B")
MOE: Final = ("deepseek-ai/DeepSeek-V2-Lite", "Qwen/Qwen3-30B-A3B", "openai/gpt-oss-20b")
ENGINES: Final = ("megatron", "torchtitan", "automodel", "generic", "ideal")
# memory [TB/s], sustained and boost clock [GHz], links of a GPU [GB/s], NIC [Gbit/s]
RATES: Final = {
    "a100_sxm": (2.039, 1.41, 1.41, 300, 200),
    "h100_sxm": (3.35, 1.83, 1.98, 450, 400),
    "b200_sxm": (7.672, 1.856, 1.965, 900, 400),
}
SITE_LINK: Final = {"site_bandwidth": 1e11, "site_round_trip_s": 0.01}
# two transfers beside the same passes: to the host and of ZeRO-3, inside sites and between them
TWO_TRANSFERS: Final = (
    {"zero": "3", "activation_offload": 1.0, "pp": 1, "sites": 1},
    {"zero": "2", "sites": 2, "pp": 1, "sharding_replicas": 1, **SITE_LINK},
)
ROUNDING: Final = 1e-9


def drawn(rng: random.Random) -> Fields:
    """Return a random training step; MoE models have launches that no CUDA graph replaces."""
    moe, pp = rng.random() < 0.7, rng.choice((1, 1, 2, 4))
    fields: Fields = {
        "model": rng.choice(MOE if moe else DENSE),
        "engine": rng.choice(ENGINES),
        "tp": rng.choice((1, 1, 2, 4, 8)),
        "pp": pp,
        "cp": rng.choice((1, 1, 2)),
        "dp": rng.choice((2, 8, 32)),
        "micro_batch": rng.choice((1, 1, 2)),
        "sequence_length": rng.choice((1024, 2048, 8192)),
        "zero": rng.choice((None, "0", "1", "2", "3")),
        "recompute": rng.choice(("none", "selective", "full")),
        "optimizer": rng.choice(("adamw", "adamw", "muon")),
        "activation_offload": rng.choice((None, None, 0.5, 1.0)),
        "sharding_replicas": rng.choice((1, 1, 2)),
        "sites": rng.choice((1, 1, 1, 2)),
    }
    if fields["sites"] > 1:
        fields |= SITE_LINK
    fields["global_batch"] = fields["dp"] * fields["micro_batch"] * pp * rng.choice((1, 2, 4))
    if pp > 1:
        schedule, vpp = rng.choice(
            (("1f1b", 1), ("interleaved", 2), ("interleaved", 3), ("zb_v", 2))
        )
        fields |= {"pipeline_schedule": schedule, "vpp": vpp}
    if moe:
        fields |= {"ep": rng.choice((1, 2, 4)), "cuda_graphs": rng.choice(("none", "attention"))}
        fields["expert_overlap"] = pp == 1 and fields["ep"] > 1 and rng.random() < 0.5
    return fields


def pair(rng: random.Random, **given: Any) -> tuple[Fields, Fields]:  # noqa: ANN401
    """Return a training step, with some fields given, and the same one with one faster rate."""
    fields, device = drawn(rng) | given, rng.choice(tuple(RATES))
    rate, by = rng.choice(("memory", "clock", "link", "nic")), rng.choice((1.02, 1.1, 1.5))

    def system(factor: float) -> str:
        memory, clock, boost, link, nic = (factor * one for one in RATES[device])
        changes = {
            "memory": f"device.memory.bandwidth={memory:.6g} TB/s",
            "clock": f"device.clock.sustained={clock:.6g} GHz, device.clock.peak={clock:.6g} GHz,"
            f" device.clock.boost={boost:.6g} GHz",
            "link": f"device.scale_up.bandwidth={link:.6g} GB/s",
            "nic": f"node.nic_bandwidth={nic:.6g} Gbit/s",
        }
        return f"{device}{{{changes[rate]}}}"

    return {**fields, "system": system(1.0)}, {**fields, "system": system(by)}


def step_times(rows: Sequence[Fields]) -> list[float | None]:
    """Return the step time of each row, None where it is refused [s]."""
    names = {name for row in rows for name in row}
    table = {name: [row.get(name) for row in rows] for name in names}
    return train_columns(table)["step_time_s"]


def check(draws: int, seed: int, **given: Any) -> None:  # noqa: ANN401
    """Ask pairs, and fail with those of which the faster rate takes longer."""
    rng = random.Random(seed)  # noqa: S311 - draws of a test
    pairs = [pair(rng, **given) for _ in range(draws)]
    slow, fast = (step_times([one[side] for one in pairs]) for side in (0, 1))
    answered = [n for n in range(draws) if slow[n] is not None and fast[n] is not None]
    assert len(answered) > draws // 3
    broken = [pairs[n] for n in answered if fast[n] > slow[n] * (1.0 + ROUNDING)]  # type: ignore[operator]
    assert not broken, (len(broken), len(answered), broken[:5])


def test_a_faster_rate_never_lengthens_a_step() -> None:
    check(9, seed=3)


@pytest.mark.study
@pytest.mark.parametrize("given", TWO_TRANSFERS)
def test_a_faster_rate_never_lengthens_a_step_with_two_transfers_in_a_pass(given: Fields) -> None:
    check(32, seed=3, **given)


@pytest.mark.study
@pytest.mark.parametrize("given", [{}, *TWO_TRANSFERS])
def test_a_faster_rate_never_lengthens_any_of_many_steps(given: Fields) -> None:
    check(600, seed=4, **given)
