from .history import (
    history_page as history_page,
)
from .page import (
    fleet_page as fleet_page,
)
