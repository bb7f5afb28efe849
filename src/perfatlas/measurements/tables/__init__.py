"""Readers of measured tables and the schema of a measured row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.measurements.tables.cards import (
        measured_device as measured_device,
        other_card as other_card,
    )
    from perfatlas.measurements.tables.comm_tables import (
        CUSTOM as CUSTOM,
        CUSTOM_TABLE as CUSTOM_TABLE,
        DEEPEP_TABLE as DEEPEP_TABLE,
        EXCHANGE_FAMILY as EXCHANGE_FAMILY,
        FP8_ROW_BYTES as FP8_ROW_BYTES,
        LIBRARY as LIBRARY,
        LIBRARY_OPS as LIBRARY_OPS,
        LIBRARY_TABLE as LIBRARY_TABLE,
        LOW_LATENCY_TABLE as LOW_LATENCY_TABLE,
        NORMAL_TABLE as NORMAL_TABLE,
        NVLINK_TABLE as NVLINK_TABLE,
        TWO_MODE_FAMILY as TWO_MODE_FAMILY,
        comm_rows as comm_rows,
        comm_table as comm_table,
    )
    from perfatlas.measurements.tables.moe_rows import (
        MOE_MODEL as MOE_MODEL,
    )
    from perfatlas.measurements.tables.recurrent_tables import (
        KERNEL_NAMES as KERNEL_NAMES,
        recurrent_kernel as recurrent_kernel,
    )
    from perfatlas.measurements.tables.rows import (
        COLUMNS as COLUMNS,
        PROTOCOL_COLUMNS as PROTOCOL_COLUMNS,
        SHAPE_COLUMNS as SHAPE_COLUMNS,
        MeasuredRows as MeasuredRows,
        read_measured_rows as read_measured_rows,
    )
    from perfatlas.measurements.tables.silicon import (
        SiliconTable as SiliconTable,
        choose_version as choose_version,
        data_hash as data_hash,
        has_silicon as has_silicon,
        has_table as has_table,
        read_table as read_table,
        silicon_root as silicon_root,
        silicon_systems as silicon_systems,
        table_paths as table_paths,
        version_key as version_key,
    )
    from perfatlas.measurements.tables.sparse_tables import (
        SPARSE_FOLDER as SPARSE_FOLDER,
        SPARSE_FORMATS as SPARSE_FORMATS,
        SPARSE_TABLES as SPARSE_TABLES,
    )
    from perfatlas.measurements.tables.tables import (
        GEMM_FORMATS as GEMM_FORMATS,
        MOE_FORMATS as MOE_FORMATS,
        QUANTIZED_INSIDE as QUANTIZED_INSIDE,
        TABLES as TABLES,
        default_kernels as default_kernels,
        main_moe_rows as main_moe_rows,
        table_rows as table_rows,
        table_versions as table_versions,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
