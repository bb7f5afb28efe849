from .bounds import (
    lower_bounds as lower_bounds,
    sharper_step_bounds as sharper_step_bounds,
)
from .checkpoints import (
    checkpoint_times as checkpoint_times,
)
from .costs import (
    MicroBatchCosts as MicroBatchCosts,
    micro_batch_costs as micro_batch_costs,
)
from .memory import (
    TrainingMemory as TrainingMemory,
)
from .pairs import (
    pair_of_layers as pair_of_layers,
)
from .power import (
    ENERGY_PARTS as ENERGY_PARTS,
)
from .question import (
    PRICED_AS as PRICED_AS,
    TRAINED_FORMATS as TRAINED_FORMATS,
    TrainingQuestion as TrainingQuestion,
)
from .run import (
    FLOP_CONVENTION as FLOP_CONVENTION,
    WATERFALL as WATERFALL,
    TrainingSteps as TrainingSteps,
    layers_of_busiest as layers_of_busiest,
    training_steps as training_steps,
)
from .states import (
    checkpoint_bytes as checkpoint_bytes,
    state_bytes as state_bytes,
)
from .timeline import (
    StepTimeline as StepTimeline,
    step_timeline as step_timeline,
)
