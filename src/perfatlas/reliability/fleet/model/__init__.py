"""A fleet and what fails in it: components, causes, strategies, files, catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.model.catalog import (
        PublishedRate as PublishedRate,
        find_duration as find_duration,
        find_rate as find_rate,
        published_durations as published_durations,
        published_rates as published_rates,
    )
    from perfatlas.reliability.fleet.model.checks import (
        cause_rate_per_s as cause_rate_per_s,
        check_fleet as check_fleet,
        check_strategy as check_strategy,
    )
    from perfatlas.reliability.fleet.model.facts import (
        fleet_facts as fleet_facts,
        initial_ages_text as initial_ages_text,
        mean_repair_s as mean_repair_s,
    )
    from perfatlas.reliability.fleet.model.identity import (
        not_memoryless as not_memoryless,
        units_differ as units_differ,
    )
    from perfatlas.reliability.fleet.model.launchers import (
        RecoveryPolicy as RecoveryPolicy,
        recovery_policies as recovery_policies,
        under_policy as under_policy,
        with_policy as with_policy,
    )
    from perfatlas.reliability.fleet.model.model import (
        NO_REPAIR_TIMES as NO_REPAIR_TIMES,
        Cause as Cause,
        Fleet as Fleet,
        Job as Job,
        Lemons as Lemons,
        Level as Level,
        Maintenance as Maintenance,
        Reach as Reach,
        Repair as Repair,
        RepairStage as RepairStage,
        Restart as Restart,
        Shrink as Shrink,
        Spares as Spares,
        Strategy as Strategy,
        collective_init_s as collective_init_s,
        one_cause as one_cause,
    )
    from perfatlas.reliability.fleet.model.packing import (
        Packed as Packed,
        fleet_rate_per_s as fleet_rate_per_s,
        grown as grown,
        needed_level as needed_level,
        pack as pack,
        ticks as ticks,
    )
    from perfatlas.reliability.fleet.model.rate_uncertainty import (
        NARROWER as NARROWER,
        NINETY as NINETY,
        NORMAL_90 as NORMAL_90,
        NORMAL_95 as NORMAL_95,
        rate_interval as rate_interval,
        scaled_rates as scaled_rates,
    )
    from perfatlas.reliability.fleet.model.shipped import (
        read_evidence as read_evidence,
        resolve_fleet as resolve_fleet,
        resolve_strategies as resolve_strategies,
        shipped_fleets as shipped_fleets,
    )
    from perfatlas.reliability.fleet.model.strategy_file import (
        StrategyTable as StrategyTable,
        choose as choose,
    )
    from perfatlas.reliability.fleet.model.topology import (
        FailureDomains as FailureDomains,
        failure_domains as failure_domains,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
