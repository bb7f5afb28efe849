"""A fleet and what fails in it: components, causes, strategies, files, catalog."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.model.catalog import (
        PublishedRate, find_duration, find_rate, published_durations, published_rates,
    )
    from perfatlas.reliability.fleet.model.checks import (
        cause_rate_per_s, check_fleet, check_strategy,
    )
    from perfatlas.reliability.fleet.model.facts import (
        fleet_facts, initial_ages_text, mean_repair_s,
    )
    from perfatlas.reliability.fleet.model.file_fields import Lifetime
    from perfatlas.reliability.fleet.model.identity import not_memoryless, units_differ
    from perfatlas.reliability.fleet.model.launchers import (
        RecoveryPolicy, recovery_policies, under_policy, with_policy,
    )
    from perfatlas.reliability.fleet.model.model import (
        NO_REPAIR_TIMES, Cause, Fleet, Job, Lemons, Level, Maintenance, Reach, Repair, RepairStage,
        Restart, Shrink, Spares, Strategy, collective_init_s, one_cause,
    )
    from perfatlas.reliability.fleet.model.packing import (
        PackedJob, fleet_rate_per_s, grown, needed_level, pack, ticks,
    )
    from perfatlas.reliability.fleet.model.rate_uncertainty import (
        NARROWER, NINETY, NORMAL_90, NORMAL_95, rate_interval, scaled_rates,
    )
    from perfatlas.reliability.fleet.model.shipped import (
        read_evidence, resolve_fleet, resolve_strategies, shipped_fleets,
    )
    from perfatlas.reliability.fleet.model.strategy_file import StrategyTable, choose
    from perfatlas.reliability.fleet.model.topology import FailureDomains, failure_domains
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
