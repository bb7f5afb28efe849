"""Passes and calls of an attention kernel: their work, times and remarks.

Shape legend: C candidates.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.operators import ATTENTION_BACKWARD, Work
from perfatlas.pricing import scaled
from perfatlas.verbs.kernel.grouped_tiles import fixed_tile
from perfatlas.verbs.kernel.question import AttentionInputs, GemmInputs

if TYPE_CHECKING:
    from perfatlas.pricing import PricedOperators
    from perfatlas.verbs.kernel.question import OperatorInputs

_DATA: Final = "data/attention_backward.toml"


class Passes(NamedTuple):
    """Work and times of a query in forward passes.

    Args:
        work: Arithmetic and bytes.
        time: Predicted time.
        low: 5% quantile of the time.
        high: 95% quantile of the time.
    """

    work: float
    time: float
    low: float
    high: float


ONE_PASS: Final = Passes(1.0, 1.0, 1.0, 1.0)


@cache
def _backward() -> Passes:
    """Return the backward pass in forward passes."""
    text = resources.files("perfatlas").joinpath(_DATA).read_text("utf-8")
    rate = tomllib.loads(text)["rate"]
    rates = (1.0, *(float(rate[name]) for name in ("median", "highest", "lowest")))
    return Passes(*(ATTENTION_BACKWARD / one for one in rates))


def forward_passes(inputs: OperatorInputs) -> Passes:
    """Return the work and times of a query in forward passes."""
    if not isinstance(inputs, AttentionInputs) or inputs.direction == "forward":
        return ONE_PASS
    backward = _backward()
    if inputs.direction == "backward":
        return backward
    return Passes(*(1.0 + amount for amount in backward))


def work_of(work: Work, passes: Passes) -> Work:
    """Return the work of as many forward passes."""
    return Work(*(amount * passes.work for amount in work))


def price_of(prices: PricedOperators, passes: Passes) -> PricedOperators:
    """Return prices of as many forward passes.

    Limits: Bytes and energy are in proportion to arithmetic and time. Rates of the backward
        pass were published for one kernel on one GPU.
    """
    known_CO = prices.match_CO >= 0  # a roofline time is that of the work
    time_CO, low_CO, high_CO = (
        np.where(known_CO, factor, passes.work) for factor in (passes.time, passes.low, passes.high)
    )
    return scaled(prices, work=passes.work, time=time_CO, ends=(low_CO, high_CO), energy=time_CO)


def call_notes(inputs: OperatorInputs) -> list[str]:
    """Return remarks on what the calibrated time of a query includes."""
    if isinstance(inputs, GemmInputs) and inputs.groups > 1:
        rows, columns = fixed_tile(inputs)
        tile = f" of {rows:g} x {columns:g}, as {inputs.grouped_kernel} has them," if rows else ""
        sizes = ", cut at random points" if inputs.group_sizes == "random" else ""
        note = (
            f"{inputs.groups} groups{sizes} are priced as one kernel whose tiles{tile} hold rows"
            " of one group each, with parameters fitted to single products, as the measured"
            " tables have no grouped ones"
        )
        return [note]
    if not isinstance(inputs, AttentionInputs) or inputs.phase != "prefill":
        return []
    if inputs.kind != "gqa":
        return ["the time is that of an engine's call: the append to the KV cache is inside"]
    notes = []
    if inputs.direction == "forward" and inputs.cache_append != "excluded":
        notes.append("the time is that of an engine's call: the append to the KV cache is inside")
    else:
        notes.append(
            "the attention kernel alone: the append to the KV cache is left out, as a term of the"
            " fit to engine calls; it was not measured apart"
        )
    if inputs.mask == "none":
        notes.append("every query sees every key; only causal calls were measured")
    if inputs.direction != "forward":
        notes.append(
            f"the backward pass takes {_backward().time:.2f} times as long as the forward pass:"
            f" {ATTENTION_BACKWARD:g} times its arithmetic, at the median rate of published pairs"
            " of FlashAttention-2 on an H100, whose range widens the interval; no table has it"
        )
    return notes
