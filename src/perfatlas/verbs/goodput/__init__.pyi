from .answer import (
    goodput as goodput,
)
from .domains import (
    goodput_domains as goodput_domains,
)
from .fleet_answer import (
    FleetRun as FleetRun,
    fleet_goodput as fleet_goodput,
)
from .page import (
    goodput_page as goodput_page,
)
from .spares import (
    goodput_spares as goodput_spares,
)
from .stragglers import (
    goodput_stragglers as goodput_stragglers,
)
from .strategy_frontier import (
    StrategyFrontier as StrategyFrontier,
    goodput_frontier as goodput_frontier,
)
