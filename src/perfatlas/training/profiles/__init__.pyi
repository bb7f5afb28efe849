from .catalog import (
    resolve_training_engine as resolve_training_engine,
    training_engine_ids as training_engine_ids,
    training_engine_names as training_engine_names,
)
from .measured import (
    highest_mfu as highest_mfu,
)
from .profile import (
    END_LAYERS as END_LAYERS,
    PARALLEL_SIZES as PARALLEL_SIZES,
    TrainingEngine as TrainingEngine,
    lower_limit_of as lower_limit_of,
    unseen_release as unseen_release,
)
