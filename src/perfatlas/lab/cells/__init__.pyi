from .attention import (
    KernelRule as KernelRule,
    prefill_grid as prefill_grid,
)
from .cell import (
    FAMILIES as FAMILIES,
    MEASURED_DEVICES as MEASURED_DEVICES,
    Cell as Cell,
    Range as Range,
    Rows as Rows,
    exclusions as exclusions,
)
from .collectives import (
    OP_FORMATS as OP_FORMATS,
    library_cell as library_cell,
)
from .gemm import (
    QUANTIZED_GRID as QUANTIZED_GRID,
    QUANTIZED_RANGES as QUANTIZED_RANGES,
)
from .latent_attention import (
    DECODE_GRID as DECODE_GRID,
    PREFILL_GRID as PREFILL_GRID,
)
from .moe import (
    earlier_moe_cells as earlier_moe_cells,
)
from .recurrent import (
    GRIDS as GRIDS,
)
from .registry import (
    cells_by_key as cells_by_key,
    device_cells as device_cells,
)
