"""Studies as files: names that vary, constraints, base rows, and the summary of their rows."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.studies.sweeps.names import (
        STATUS, flattened, is_hardware, is_higher_better, is_override, overridden,
    )
    from perfatlas.studies.sweeps.study import Study, read_study
    from perfatlas.studies.sweeps.summary import RESULT_PREFIX, Tally, base_key
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
