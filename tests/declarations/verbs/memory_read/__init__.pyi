from .answer import (
    memory_read as memory_read,
)
