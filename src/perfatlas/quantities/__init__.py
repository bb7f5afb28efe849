"""Units, provenance, expressions and user-facing errors; independent of the modelled domain."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.quantities.durations import (
        DAY_S, HOUR_S, MICROSECOND_S, MILLISECOND_S, NANOSECOND_S, parse_duration, parse_rate,
    )
    from perfatlas.quantities.errors import (
        InfeasibleError, InvalidSpecError, MissingDependencyError, PerfatlasError, UnsupportedError,
        UsageError, ValidationGateError, counted, printable, repr_for_error,
    )
    from perfatlas.quantities.expressions import Expression
    from perfatlas.quantities.names import did_you_mean, nearest_name, resolve_name
    from perfatlas.quantities.provenance import Kind, Source
    from perfatlas.quantities.rules import (
        Remark, Remarks, Rule, broken_rules, refuse_broken, remarks,
    )
    from perfatlas.quantities.units import (
        UNITS, format_quantity, parse_quantity, significant, two_digits,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
