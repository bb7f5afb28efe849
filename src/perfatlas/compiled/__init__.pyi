from .cached import (
    kept_entry as kept_entry,
)
from .loops import (
    compiled as compiled,
    compiled_part as compiled_part,
)
