"""Studies of many candidates: rules that refuse some, probabilities, Pareto sets."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.studies.answer_store import answer_key, keep_answer, kept_answer
    from perfatlas.studies.bisection import cheapest_pair, smallest_number
    from perfatlas.studies.cheapest_machine import AREA, read_unknowns
    from perfatlas.studies.executors import dask_results, local_results, usable_processors
    from perfatlas.studies.explanation import (
        break_even, elasticities, explained_estimate, next_bottlenecks,
    )
    from perfatlas.studies.factors import all_factors
    from perfatlas.studies.run_folder import (
        STATS, RunFolder, check_versions, data_hashes, export_run, file_hashes, find_run,
        runs_folder, versions,
    )
    from perfatlas.studies.layout_groups import LayoutFailures, LayoutSearch
    from perfatlas.studies.layout_question import (
        SEARCHED, LayoutSearchInputs, read_layout_search,
    )
    from perfatlas.studies.layout_search import FoundLayouts, find_layouts
    from perfatlas.studies.pareto import pareto_points
    from perfatlas.studies.point_columns import PointColumns
    from perfatlas.studies.points import Axis, Points, Sample, SampledName, spread
    from perfatlas.studies.probability import probability_at_most, value_exceeded
    from perfatlas.studies.ranking import joined
    from perfatlas.studies.refusals import rejected_counts, rejected_text
    from perfatlas.studies.run_index import drop_run, indexed_runs, put_run
    from perfatlas.studies.question_store import save_question, saved_questions
    from perfatlas.studies.scaling import scaled_scenario
    from perfatlas.studies.sensitivity_text import print_sensitivities
    from perfatlas.studies.shipped import shipped_studies, study_purpose
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
