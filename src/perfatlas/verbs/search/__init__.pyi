from .answer import (
    SearchAnswer as SearchAnswer,
    search as search,
)
