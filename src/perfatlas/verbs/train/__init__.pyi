from .answer import (
    train as train,
    train_columns as train_columns,
)
