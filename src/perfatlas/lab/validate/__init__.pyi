from .benchmarks import (
    validate_serving as validate_serving,
)
from .blocks import (
    validate_blocks as validate_blocks,
)
from .capacity import (
    validate_capacity as validate_capacity,
)
from .measured import (
    validate_measured as validate_measured,
)
from .measured_medians import (
    UnseenScore as UnseenScore,
)
from .measured_page import (
    write_measured_page as write_measured_page,
)
from .steps import (
    validate_steps as validate_steps,
)
from .traffic import (
    validate_traffic as validate_traffic,
)
