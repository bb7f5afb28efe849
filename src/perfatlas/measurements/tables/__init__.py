"""Readers of measured tables and the schema of a measured row."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.measurements.tables.cards import measured_device, other_card
    from perfatlas.measurements.tables.comm_tables import (
        CUSTOM, CUSTOM_TABLE, DEEPEP_TABLE, EXCHANGE_FAMILY, FP8_ROW_BYTES, LIBRARY, LIBRARY_OPS,
        LIBRARY_TABLE, LOW_LATENCY_TABLE, NORMAL_TABLE, NVLINK_TABLE, TWO_MODE_FAMILY, comm_rows,
        comm_table,
    )
    from perfatlas.measurements.tables.moe_rows import MOE_MODEL
    from perfatlas.measurements.tables.recurrent_tables import KERNEL_NAMES, recurrent_kernel
    from perfatlas.measurements.tables.rows import (
        COLUMNS, PROTOCOL_COLUMNS, SHAPE_COLUMNS, MeasuredRows, read_measured_rows,
    )
    from perfatlas.measurements.tables.silicon import (
        SiliconTable, choose_version, data_hash, has_silicon, has_table, read_table, silicon_root,
        silicon_systems, table_paths, version_key,
    )
    from perfatlas.measurements.tables.sparse_tables import (
        SPARSE_FOLDER, SPARSE_FORMATS, SPARSE_TABLES,
    )
    from perfatlas.measurements.tables.tables import (
        GEMM_FORMATS, MOE_FORMATS, QUANTIZED_INSIDE, TABLES, default_kernels, main_moe_rows,
        table_rows, table_versions,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
