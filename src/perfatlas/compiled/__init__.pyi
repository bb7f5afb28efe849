from .columns import (
    hold as hold,
)
from .draws import (
    exponential as exponential,
    replica_key as replica_key,
    uniform as uniform,
)
from .event_heap import (
    NODE as NODE,
    drop as drop,
    push as push,
)
from .listeners import (
    listening as listening,
)
from .loops import (
    compiled as compiled,
)
from .parts import (
    entry as entry,
    inlined as inlined,
    optimized_entry as optimized_entry,
    part as part,
)
from .reach import (
    code_text as code_text,
)
