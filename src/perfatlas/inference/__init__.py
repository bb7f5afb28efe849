"""Serving in closed form: static batches, continuous batching, two pools."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.inference.composition import MIN_BOUND_SHARE
    from perfatlas.inference.energy import TokenEnergy, energies_at
    from perfatlas.inference.evaluation import Evaluation, evaluate
    from perfatlas.inference.front_end import (
        FrontScale, client_note, client_side, front_end_note, front_ends, reading,
    )
    from perfatlas.inference.intervals import (
        IDEAL, KERNELS_ONLY, StepTails, devices, fastest_s, model_kind, release_limits, run_kinds,
        slowest_s, step_limits, step_tails, support, unseen,
    )
    from perfatlas.inference.latencies import (
        ClientSide, Joining, Latencies, Prompt, aggregated_latencies, at_client, joining_s,
        pipelined_s, static_latencies,
    )
    from perfatlas.inference.pool_times import (
        DecodeWorker, PoolLoad, PoolTimes, PrefillWorker, cache_link_s, fabric_latency_s,
        first_from,
    )
    from perfatlas.inference.pools import FIRST_TOKEN, POOL_RULES, PoolRates
    from perfatlas.inference.power_limits import (
        breaks_limits, power_limit_error,
    )
    from perfatlas.inference.running_load import (
        max_decodes, prompt_rejection, rejects_prompts, served_sequences,
    )
    from perfatlas.inference.request_mix import RequestClasses, evaluate_mix, with_lengths
    from perfatlas.inference.results import (
        ITEM_NAMES, PER_KWH, common_nodes, energy_columns, memory_columns, metered_nodes,
        number_cells, one_column, pass_results, plain_results, result_columns, token_results,
        unused_meter, unused_meter_note,
    )
    from perfatlas.inference.shared_steps import LoadResults
    from perfatlas.inference.split_layers import SPLIT_RULES, SplitLayers, SplitLoad, hidden_link_s
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
