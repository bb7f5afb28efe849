"""Statically scheduled SRAM dataflow: times are those of a schedule without contention."""
