"""Workers of one pool as columns: parallel sizes, loads and limits, with defaults filled in.

Shape legend: N rows.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.energy import ZEROS
from perfatlas.networks import resolve_model
from perfatlas.parallelism import PlanColumns, default_moe_split
from perfatlas.quantities import PerfatlasError
from perfatlas.scenario.fields import distinct_rows
from perfatlas.step import EngineLimits, Load

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.operators import FloatArray
    from perfatlas.scenario.fields import BoolArray, Columns


IMAGE_FIELDS: Final = ("images", "image_height", "image_width")
LIMITS: Final = tuple(field.name for field in fields(EngineLimits))


@dataclass(frozen=True, kw_only=True)
class Workers:
    """The workers of one pool, for all rows."""

    columns: Columns  # Fields (N,)
    plan: PlanColumns  # Parallel sizes; unset ones are derived from gpus
    load: Load  # Sequences per replica and lengths
    limits: EngineLimits  # Engine limits, NaN if unset
    clock_ratio_N: FloatArray  # Clock over the sustained clock (N,)
    power_cap_w_N: FloatArray  # Power limit of a GPU (N,) [W], inf for none
    offload_N: tuple[FloatArray, FloatArray]  # Shares of weights and KV in the second memory (N,)
    prefetch_N: BoolArray  # Whether those weights are fetched ahead (N,)
    zeros_N: BoolArray  # Whether all tensors hold zeros (N,)
    aggregated_N: BoolArray  # Whether batching is continuous (N,)
    pooled: bool  # Whether they are workers of a prefill or decode pool
    part: str  # Part of the layers that they run, of `PARTS`, "" for all
    stage: int  # Stage of its refusals
    queues: bool = False  # Whether requests queue: they are simulated


def workers_of(
    columns: Columns,
    stage: int = 0,
    *,
    pooled: bool = False,
    part: str = "",
) -> Workers:
    """Return the workers of a pool with defaults filled in.

    Args:
        columns: Fields of all rows (N).
        pooled: Whether they are workers of a prefill or decode pool.
        part: Part of the layers that they run, of `PARTS`, "" for all.
    """
    plan = _plan_columns(columns)
    return Workers(
        columns=columns,
        plan=plan,
        load=load_of(columns, plan.dp),
        limits=EngineLimits(**{name: columns.numbers(name) for name in LIMITS}),
        clock_ratio_N=columns.numbers("clock_ratio"),
        power_cap_w_N=columns.numbers("power_cap_w", np.inf),
        offload_N=(columns.numbers("weight_offload"), columns.numbers("kv_offload")),
        prefetch_N=columns["offload_prefetch"].differs,
        zeros_N=columns.equals("input_distribution", ZEROS),
        aggregated_N=columns.equals("mode", "aggregated"),
        pooled=pooled,
        part=part,
        stage=stage,
    )


def _plan_columns(columns: Columns) -> PlanColumns:
    """Return the plans; dp is derived from gpus and tp if divisible.

    If tp is not given, the plan is provisional, with tp = 1, until `fitted_plans` replaces it.
    """
    pp, cp, attention_dp = (columns.numbers(name) for name in ("pp", "cp", "attention_dp"))
    inner = pp * cp * attention_dp
    gpus, tp, dp = columns.numbers("gpus", 0.0), columns.numbers("tp"), columns.numbers("dp")
    tp = np.where(np.isnan(tp), 1.0, tp)
    dp = np.where(np.isnan(dp), _quotient(gpus, tp * inner), dp)
    given = columns.numbers("ep"), columns.numbers("moe_tp")
    ep, moe_tp = default_moe_split(tp, attention_dp, *given)
    return PlanColumns(
        tp=tp,
        pp=pp,
        cp=cp,
        attention_dp=attention_dp,
        ep=ep,
        moe_tp=moe_tp,
        dp=dp,
        ring_degree=columns.numbers("ring_degree"),
        guidance_degree=columns.numbers("guidance_degree"),
        dcp=columns.numbers("dcp"),
    )


def _quotient(gpus_N: FloatArray, others_N: FloatArray) -> FloatArray:
    """Return gpus / others (N,); 1 if not divisible or unset."""
    divides_N = (gpus_N > 0.0) & (np.mod(gpus_N, others_N) == 0.0)
    quotient_N: FloatArray = np.where(divides_N, gpus_N / others_N, 1.0)
    return quotient_N


def load_of(columns: Columns, replicas_N: FloatArray) -> Load:
    """Return the load of one replica: `batch` is per replica, `concurrency` over the deployment.

    Args:
        columns: Fields (N,).
    """
    batch, concurrency = columns.numbers("batch"), columns.numbers("concurrency")
    concurrency = np.where(np.isnan(concurrency), replicas_N, concurrency)
    sequences = np.where(np.isnan(batch), concurrency / replicas_N, batch)
    same_names = ("osl", "prefix", "osl_spread")
    return Load(
        occupancy=np.minimum(sequences, 1.0),
        sequences=np.maximum(sequences, 1.0),
        rounds=columns.numbers("requests_per_client"),
        isl=prompt_tokens(columns),
        **{name: columns.numbers(name) for name in same_names},
    )


def image_tokens(values: Mapping[str, Any]) -> int:
    """Return the tokens that the images of a request add to its prompt.

    Args:
        values: model, images, image_height and image_width.

    Raises:
        PerfatlasError: The model is unknown, encodes no images, or none of this shape.

    Example:
        >>> from perfatlas.scenario.resolution import image_tokens
        >>> image_tokens({"model": "google/gemma-3-4b-it", "images": 2, "image_height": 720,
        ...     "image_width": 1280})
        512
    """
    if not values["images"]:
        return 0
    network = resolve_model(values["model"]).network
    images = network.with_images(*(values[name] for name in IMAGE_FIELDS)).images
    return 0 if images is None else images.prompt_tokens


def image_fields(values: Mapping[str, Any]) -> dict[str, int]:
    """Return the images of requests and their size by field name; {} without images.

    Args:
        values: images, image_height and image_width.
    """
    return {name: values[name] for name in IMAGE_FIELDS} if values["images"] else {}


def prompt_tokens(columns: Columns) -> FloatArray:
    """Return isl and the tokens of images (N,); where these are unknown, isl.

    Args:
        columns: Fields (N).
    """
    isl_N = columns.numbers("isl")
    if not columns.is_set_anywhere("images"):
        return isl_N
    names = ("model", *IMAGE_FIELDS)
    distinct = distinct_rows([columns[name].value_codes for name in names])
    added_U = []
    for row in distinct.first_U.tolist():
        try:
            added_U.append(float(image_tokens(columns.at(row, names))))
        except PerfatlasError:  # refused where the model is resolved
            added_U.append(0.0)
    total_N: FloatArray = isl_N + np.array(added_U)[distinct.codes_N]
    return total_N
