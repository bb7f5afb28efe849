from .durations import (
    parse_duration as parse_duration,
    parse_rate as parse_rate,
)
from .errors import (
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
from .names import (
    did_you_mean as did_you_mean,
    nearest_name as nearest_name,
    resolve_name as resolve_name,
)
from .provenance import (
    Kind as Kind,
    Source as Source,
)
from .units import (
    format_quantity as format_quantity,
    parse_quantity as parse_quantity,
    significant as significant,
    two_digits as two_digits,
)
