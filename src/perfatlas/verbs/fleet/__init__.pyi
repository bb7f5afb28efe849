from .history import (
    history_page as history_page,
)
from .lifetime_text import (
    print_lifetimes as print_lifetimes,
)
from .page import (
    fleet_page as fleet_page,
)
from .text import (
    kind_text as kind_text,
    print_fitted as print_fitted,
)
