"""Serving in closed form: static batches, continuous batching, two pools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.inference.composition import MIN_BOUND_SHARE as MIN_BOUND_SHARE
    from perfatlas.inference.energy import TokenEnergy as TokenEnergy, energies_at as energies_at
    from perfatlas.inference.evaluation import Evaluation as Evaluation, evaluate as evaluate
    from perfatlas.inference.front_end import (
        FrontScale as FrontScale,
        client_note as client_note,
        client_side as client_side,
        front_end_note as front_end_note,
        front_ends as front_ends,
        reading as reading,
    )
    from perfatlas.inference.intervals import (
        KERNELS_ONLY as KERNELS_ONLY,
        StepTails as StepTails,
        architectures as architectures,
        fastest_s as fastest_s,
        model_kind as model_kind,
        release_limits as release_limits,
        run_kinds as run_kinds,
        slowest_s as slowest_s,
        step_limits as step_limits,
        step_tails as step_tails,
        unseen_notes as unseen_notes,
    )
    from perfatlas.inference.latencies import (
        ClientSide as ClientSide,
        Joining as Joining,
        Latencies as Latencies,
        Prompt as Prompt,
        aggregated_latencies as aggregated_latencies,
        at_client as at_client,
        joining_s as joining_s,
        pipelined_s as pipelined_s,
        static_latencies as static_latencies,
    )
    from perfatlas.inference.pool_times import (
        DecodeWorker as DecodeWorker,
        PoolLoad as PoolLoad,
        PoolTimes as PoolTimes,
        PrefillWorker as PrefillWorker,
        cache_link_s as cache_link_s,
        fabric_latency_s as fabric_latency_s,
        first_from as first_from,
    )
    from perfatlas.inference.pools import (
        FIRST_TOKEN as FIRST_TOKEN,
        POOL_RULES as POOL_RULES,
        PoolRates as PoolRates,
    )
    from perfatlas.inference.power_limits import (
        breaks_limits as breaks_limits,
        power_limit_error as power_limit_error,
        unreached_limits as unreached_limits,
        unused_zeros as unused_zeros,
    )
    from perfatlas.inference.prompts import (
        beside_prompt as beside_prompt,
        prompt_rejection as prompt_rejection,
        rejects_prompts as rejects_prompts,
    )
    from perfatlas.inference.request_mix import (
        RequestClasses as RequestClasses,
        evaluate_mix as evaluate_mix,
        with_lengths as with_lengths,
    )
    from perfatlas.inference.results import (
        ITEM_NAMES as ITEM_NAMES,
        PER_KWH as PER_KWH,
        common_nodes as common_nodes,
        energy_columns as energy_columns,
        memory_columns as memory_columns,
        metered_nodes as metered_nodes,
        number_cells as number_cells,
        one_column as one_column,
        pass_results as pass_results,
        plain_results as plain_results,
        result_columns as result_columns,
        unused_meter as unused_meter,
        unused_meter_note as unused_meter_note,
    )
    from perfatlas.inference.running_load import served_sequences as served_sequences
    from perfatlas.inference.shared_steps import LoadResults as LoadResults
    from perfatlas.inference.split_layers import (
        SplitLayers as SplitLayers,
        SplitLoad as SplitLoad,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
