"""Closed forms of goodput: checkpoints, spares, redundancy."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.closed_form.asynchronous import (
        asynchronous_efficiency, snapshots_in_flight,
    )
    from perfatlas.reliability.fleet.closed_form.corruption import VerifiedPattern, verified_time_s
    from perfatlas.reliability.fleet.closed_form.expected import (
        Expected, best_interval_s, expected_goodput, known_mtti_s, likely_interval_s,
        restart_remark,
    )
    from perfatlas.reliability.fleet.closed_form.late_detection import (
        kept_for, late_detection_remarks,
    )
    from perfatlas.reliability.fleet.closed_form.maintenance import Plain, maintained_efficiency
    from perfatlas.reliability.fleet.closed_form.multilevel import multilevel_efficiency
    from perfatlas.reliability.fleet.closed_form.redundancy import replicas_up, spare_replicas
    from perfatlas.reliability.fleet.closed_form.renewal import (
        FASTER, LOW_GOODPUT, best_goodput, optimal_interval_s, renewal_efficiency, renewal_shares,
        what_is_lost,
    )
    from perfatlas.reliability.fleet.closed_form.spares import (
        NodePool, birth_death_blocked, blocked_probability, failed_nodes, spares_covering,
        spares_for,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
