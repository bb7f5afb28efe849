"""Serving engines as dated data; independent of models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.engines.catalog import (
        PREFERRED as PREFERRED,
        all_reduce_groups as all_reduce_groups,
        default_engine as default_engine,
        engine_ids as engine_ids,
        engine_names as engine_names,
        engines_on as engines_on,
        resolve_engine as resolve_engine,
        runs_on as runs_on,
    )
    from perfatlas.engines.fusions import GraphKernels as GraphKernels
    from perfatlas.engines.host_times import Launches as Launches
    from perfatlas.engines.laboratories import (
        LABORATORIES as LABORATORIES,
        OperatorSpread as OperatorSpread,
        operator_class as operator_class,
        operator_spreads as operator_spreads,
        release_spread as release_spread,
        shipped_laboratories as shipped_laboratories,
        step_spreads as step_spreads,
        unseen_kinds as unseen_kinds,
        whole_run_spread as whole_run_spread,
    )
    from perfatlas.engines.launch_settings import with_launch_settings as with_launch_settings
    from perfatlas.engines.profile import (
        CompressedPages as CompressedPages,
        EngineProfile as EngineProfile,
    )
    from perfatlas.engines.profile_file import profile_fields as profile_fields
    from perfatlas.engines.template import engine_template as engine_template
    from perfatlas.engines.tokenizers import Tokenizing as Tokenizing, tokenizing as tokenizing
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
