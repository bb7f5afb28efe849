from .evidence import (
    evidence_document as evidence_document,
)
from .file import (
    fleet_document as fleet_document,
    write_fleet as write_fleet,
)
from .fit import (
    FleetFit as FleetFit,
    fit_fleet as fit_fleet,
    fleet_rates as fleet_rates,
)
from .lifetime_fit import (
    fit_lifetimes as fit_lifetimes,
)
from .lifetime_fleet import (
    PartsOfFleet as PartsOfFleet,
    write_lifetime_fleet as write_lifetime_fleet,
)
from .records import (
    FleetOptions as FleetOptions,
)
