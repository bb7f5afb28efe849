"""Messages about sizes that contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfatlas.scenario.fields import Scenario


def product_message(s: Scenario, tp: int, dp: int) -> str:
    """Return the message that a plan does not match gpus."""
    total = tp * s.pp * s.cp * s.attention_dp * dp
    return (
        f"gpus = {s.gpus}, but tp x pp x cp x attention_dp x dp ="
        f" {tp} x {s.pp} x {s.cp} x {s.attention_dp} x {dp} = {total};"
        " leave gpus out, or make the product match"
    )


def sequences_message(s: Scenario, batch: int) -> str:
    """Return the message that a static batch exceeds max_num_seqs."""
    ranks, most = s.attention_dp, s.max_num_seqs or 0
    return (
        f"max_num_seqs = {most}, but a batch of {batch} needs {-(-batch // ranks)}"
        f" concurrent sequences; use a batch of at most {most * ranks} per replica,"
        " raise max_num_seqs, or use mode aggregated, in which requests queue"
    )
