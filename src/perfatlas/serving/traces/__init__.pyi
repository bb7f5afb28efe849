from .formats import (
    read_requests as read_requests,
)
from .reading import (
    Window as Window,
)
from .servegen import (
    Span as Span,
    generate_servegen as generate_servegen,
)
