"""Serving engines as dated data; independent of models."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.engines.catalog import (
        PREFERRED, all_reduce_groups, default_engine, engine_ids, engine_names, engines_on,
        resolve_engine, runs_on,
    )
    from perfatlas.engines.fusions import GraphKernels
    from perfatlas.engines.profile import (
        CachePools, CompressedPages, EngineProfile, KvOffload, Launches, PageGroups,
    )
    from perfatlas.engines.laboratories import (
        LABORATORIES, SUPPORT, OperatorSpread, measured_runs, operator_class, operator_spreads,
        release_spread, run_support, shipped_laboratories, step_spreads, unseen_kinds,
        whole_run_spread,
    )
    from perfatlas.engines.launch_settings import with_launch_settings
    from perfatlas.engines.profile_file import profile_fields
    from perfatlas.engines.template import engine_template
    from perfatlas.engines.tokenizers import Tokenizing, tokenizing
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
