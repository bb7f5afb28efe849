"""Studies of many candidates: rules that refuse some, probabilities, Pareto sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.studies.bisection import (
        cheapest_pair as cheapest_pair,
        smallest_number as smallest_number,
    )
    from perfatlas.studies.cheapest_machine import (
        AREA as AREA,
        CheapestMachine as CheapestMachine,
        MachineSearch as MachineSearch,
        limit_costs as limit_costs,
        read_unknowns as read_unknowns,
    )
    from perfatlas.studies.executors import (
        dask_results as dask_results,
        local_results as local_results,
        usable_processors as usable_processors,
    )
    from perfatlas.studies.explanation import (
        break_even as break_even,
        elasticities as elasticities,
        explained_estimate as explained_estimate,
        next_bottlenecks as next_bottlenecks,
    )
    from perfatlas.studies.factors import all_factors as all_factors
    from perfatlas.studies.installed_versions import (
        check_versions as check_versions,
        data_hashes as data_hashes,
        file_hashes as file_hashes,
        versions as versions,
    )
    from perfatlas.studies.layout_search import (
        SEARCHED as SEARCHED,
        FoundLayouts as FoundLayouts,
        LayoutQuestion as LayoutQuestion,
        Priced as Priced,
        find_layouts as find_layouts,
    )
    from perfatlas.studies.pareto import pareto_points as pareto_points
    from perfatlas.studies.point_columns import PointColumns as PointColumns
    from perfatlas.studies.points import (
        Axis as Axis,
        Points as Points,
        Sample as Sample,
        SampledName as SampledName,
        spread as spread,
    )
    from perfatlas.studies.probability import (
        probability_at_most as probability_at_most,
        value_exceeded as value_exceeded,
    )
    from perfatlas.studies.ranking import joined as joined
    from perfatlas.studies.refusals import (
        rejected_counts as rejected_counts,
        rejected_text as rejected_text,
    )
    from perfatlas.studies.run_folder import (
        STATS as STATS,
        RunFolder as RunFolder,
        export_run as export_run,
        find_run as find_run,
        runs_folder as runs_folder,
    )
    from perfatlas.studies.run_index import (
        drop_run as drop_run,
        indexed_runs as indexed_runs,
        put_run as put_run,
    )
    from perfatlas.studies.scaling import scaled_scenario as scaled_scenario
    from perfatlas.studies.sensitivity_text import print_sensitivities as print_sensitivities
    from perfatlas.studies.shipped import (
        shipped_studies as shipped_studies,
        study_purpose as study_purpose,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
