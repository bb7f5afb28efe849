from .answer import (
    train as train,
    train_columns as train_columns,
)
from .page import (
    training_page as training_page,
)
from .search.answer import (
    search_training as search_training,
)
from .timeline import (
    training_timeline as training_timeline,
)
