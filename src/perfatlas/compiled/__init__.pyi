from .columns import (
    hold as hold,
)
from .listeners import (
    listening as listening,
)
from .loops import (
    compiled as compiled,
)
from .parts import (
    Entry as Entry,
    entry as entry,
    inlined as inlined,
    part as part,
)
from .reach import (
    code_text as code_text,
)
