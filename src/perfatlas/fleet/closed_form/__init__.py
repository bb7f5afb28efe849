"""Closed forms of goodput: checkpoints, spares, redundancy, stragglers."""

from __future__ import annotations

from perfatlas.fleet.closed_form.asynchronous import asynchronous_efficiency, snapshots_in_flight
from perfatlas.fleet.closed_form.corruption import VerifiedPattern, verified_time_s
from perfatlas.fleet.closed_form.estimates import (
    CHECKPOINT_BYTES_PER_PARAMETER,
    linear_goodput,
    meta_ettr,
    saxena_availability,
)
from perfatlas.fleet.closed_form.expected import (
    Expected,
    best_interval_s,
    expected_goodput,
    known_mtti_s,
    likely_interval_s,
    restart_remark,
)
from perfatlas.fleet.closed_form.intervals import (
    daly_higher_order_s,
    saxena_interval_s,
    young_interval_s,
)
from perfatlas.fleet.closed_form.late_detection import kept_for, late_finds
from perfatlas.fleet.closed_form.maintenance import Plain, maintained_efficiency
from perfatlas.fleet.closed_form.multilevel import multilevel_efficiency
from perfatlas.fleet.closed_form.redundancy import at_least, blast_usable, usable_share
from perfatlas.fleet.closed_form.renewal import (
    FASTER,
    LITTLE,
    optimal_interval_s,
    renewal_efficiency,
    what_is_lost,
)
from perfatlas.fleet.closed_form.spares import (
    birth_death_blocked,
    blocked_probability,
    failed_nodes,
    spares_for,
)
from perfatlas.fleet.closed_form.stragglers import largest_normal, slowest_step

__all__ = [
    "CHECKPOINT_BYTES_PER_PARAMETER",
    "FASTER",
    "LITTLE",
    "Expected",
    "Plain",
    "VerifiedPattern",
    "asynchronous_efficiency",
    "at_least",
    "best_interval_s",
    "birth_death_blocked",
    "blast_usable",
    "blocked_probability",
    "daly_higher_order_s",
    "expected_goodput",
    "failed_nodes",
    "kept_for",
    "known_mtti_s",
    "largest_normal",
    "late_finds",
    "likely_interval_s",
    "linear_goodput",
    "maintained_efficiency",
    "meta_ettr",
    "multilevel_efficiency",
    "optimal_interval_s",
    "renewal_efficiency",
    "restart_remark",
    "saxena_availability",
    "saxena_interval_s",
    "slowest_step",
    "snapshots_in_flight",
    "spares_for",
    "usable_share",
    "verified_time_s",
    "what_is_lost",
    "young_interval_s",
]
