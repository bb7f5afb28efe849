"""Studies as files: names that vary, constraints, base rows, and the summary of their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.studies.sweeps.names import (
        STATUS as STATUS,
        flattened as flattened,
        is_hardware as is_hardware,
        is_higher_better as is_higher_better,
        is_override as is_override,
        overridden as overridden,
    )
    from perfatlas.studies.sweeps.study import (
        Study as Study,
        read_study as read_study,
    )
    from perfatlas.studies.sweeps.summary import (
        RESULT_PREFIX as RESULT_PREFIX,
        Tally as Tally,
        base_key as base_key,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
