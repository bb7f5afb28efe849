"""Closed forms of goodput: checkpoints, spares, redundancy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.closed_form.asynchronous import (
        asynchronous_efficiency as asynchronous_efficiency,
        snapshots_in_flight as snapshots_in_flight,
    )
    from perfatlas.reliability.fleet.closed_form.corruption import (
        VerifiedPattern as VerifiedPattern,
        verified_time_s as verified_time_s,
    )
    from perfatlas.reliability.fleet.closed_form.expected import (
        Expected as Expected,
        best_interval_s as best_interval_s,
        expected_goodput as expected_goodput,
        known_mtti_s as known_mtti_s,
        likely_interval_s as likely_interval_s,
        restart_remark as restart_remark,
    )
    from perfatlas.reliability.fleet.closed_form.late_detection import (
        kept_for as kept_for,
        late_detection_remarks as late_detection_remarks,
    )
    from perfatlas.reliability.fleet.closed_form.maintenance import (
        Plain as Plain,
        maintained_efficiency as maintained_efficiency,
    )
    from perfatlas.reliability.fleet.closed_form.multilevel import (
        multilevel_efficiency as multilevel_efficiency,
    )
    from perfatlas.reliability.fleet.closed_form.redundancy import (
        replicas_up as replicas_up,
        spare_replicas as spare_replicas,
    )
    from perfatlas.reliability.fleet.closed_form.renewal import (
        FASTER as FASTER,
        LOW_GOODPUT as LOW_GOODPUT,
        best_goodput as best_goodput,
        optimal_interval_s as optimal_interval_s,
        renewal_efficiency as renewal_efficiency,
        renewal_shares as renewal_shares,
        what_is_lost as what_is_lost,
    )
    from perfatlas.reliability.fleet.closed_form.spares import (
        NodePool as NodePool,
        birth_death_blocked as birth_death_blocked,
        blocked_probability as blocked_probability,
        failed_nodes as failed_nodes,
        spares_covering as spares_covering,
        spares_for as spares_for,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
