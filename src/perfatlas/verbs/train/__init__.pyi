from .answer import (
    train as train,
    train_columns as train_columns,
)
from .search.answer import (
    search_training as search_training,
)
