"""Units, provenance, expressions and user-facing errors; independent of the modelled domain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.quantities.durations import (
        DAY_S as DAY_S,
        HOUR_S as HOUR_S,
        MICROSECOND_S as MICROSECOND_S,
        MILLISECOND_S as MILLISECOND_S,
        NANOSECOND_S as NANOSECOND_S,
        parse_duration as parse_duration,
        parse_rate as parse_rate,
    )
    from perfatlas.quantities.errors import (
        InfeasibleError as InfeasibleError,
        InvalidSpecError as InvalidSpecError,
        MissingDependencyError as MissingDependencyError,
        PerfatlasError as PerfatlasError,
        UnsupportedError as UnsupportedError,
        UsageError as UsageError,
        ValidationGateError as ValidationGateError,
        counted as counted,
        printable as printable,
        repr_for_error as repr_for_error,
    )
    from perfatlas.quantities.expressions import Expression as Expression
    from perfatlas.quantities.names import (
        did_you_mean as did_you_mean,
        nearest_name as nearest_name,
        resolve_name as resolve_name,
    )
    from perfatlas.quantities.provenance import Kind as Kind, Source as Source
    from perfatlas.quantities.units import (
        format_quantity as format_quantity,
        parse_quantity as parse_quantity,
        significant as significant,
        two_digits as two_digits,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
