"""Links that several transfers of a step share: NICs of nodes, and links between sites.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.operators import ACTIVATION_BYTES
from perfatlas.training.step.collective_prices import GroupColumns, collective_times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.training.step.question import TrainingQuestion


def stage_send_s(question: TrainingQuestion) -> FloatArray:
    """Return the transfer of activations between two stages (C,) [s]."""
    layouts = question.layouts
    hidden = question.network.hidden_size
    bytes_C = layouts.tokens / layouts.token_ranks * hidden * ACTIVATION_BYTES
    ranks_C = np.where(layouts.pp > 1, 2.0, 1.0)
    stride_C = layouts.tp * layouts.cp * layouts.dp
    group = GroupColumns(ranks_C, stride_C, question.index_C)
    times_VC = collective_times(question, "send_recv", bytes_C, group)
    send_s_C: FloatArray = times_VC[0] / question.engine.efficiency_communication
    return send_s_C


def with_sends_s(
    question: TrainingQuestion, time_s_C: FloatArray, sends_s_C: FloatArray | float
) -> FloatArray:
    """Return the time of a data-parallel collective and of the transfers on its NICs (C,) [s].

    While passes of the pipeline run, their transfers take a share of the NIC, and the collective
    has what is left. Groups inside a scale-up domain do not use NICs.

    Source: derived: work that a shared link has to do is conserved.
    Limits: One direction of the NIC; a rank's NIC is its own, as on rails.
    """
    layouts = question.layouts
    domains = [float(system.device.scale_up.domain_size) for system in question.systems]
    domain_C = np.array(domains)[question.index_C]
    replica_C = layouts.tp * layouts.cp * layouts.dp
    shared_C = (layouts.pp > 1) & (replica_C * layouts.pp > domain_C) & (replica_C > domain_C)
    return np.where(shared_C & (time_s_C > 0.0), time_s_C + sends_s_C, time_s_C)


def between_sites_s(
    question: TrainingQuestion, gradients: Sequence[FloatArray], inside_s_C: FloatArray
) -> FloatArray:
    """Return the reduction of gradients inside sites and between them (C,) [s].

    A ring of sites reduces one copy of all gradients over the link of a site, which all its ranks
    share. Buckets travel between sites while the next ones are reduced inside.

    Args:
        gradients: Gradients of a rank, dense and of experts (C,) [bytes].

    Source: derived: ring all-reduce between sites, 2 (n - 1)/n of the bytes, 2 (n - 1) messages.
    Limits: Every pipeline rank has as many gradients as the one with most. Sites have equal links,
        a ring, and no other traffic.
    """
    recipe, layouts = question.recipe, question.layouts
    sites = recipe.sites
    if sites == 1:
        return inside_s_C
    dense_C, experts_C = gradients
    copies = (layouts.tp, layouts.ep * layouts.expert_tp)
    bytes_C = layouts.pp * (dense_C * copies[0] + experts_C * copies[1])
    latency_s = (sites - 1.0) * recipe.site_round_trip_s
    between_s_C = 2.0 * (sites - 1.0) / sites * bytes_C / recipe.site_bandwidth + latency_s
    shorter_s_C = np.minimum(inside_s_C, between_s_C)
    pieces = float(question.engine.gradient_buckets) if question.engine.gradient_overlap else 1.0
    return np.maximum(inside_s_C, between_s_C) + shorter_s_C / pieces
