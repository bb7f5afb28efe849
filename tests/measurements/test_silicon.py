from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.measurements import tables
from perfatlas.measurements.tables.silicon import version_key
from perfatlas.quantities import MissingDependencyError, UnsupportedError

needs_silicon = pytest.mark.skipif(
    not tables.has_silicon(), reason="the measured tables of the extra silicon are not installed"
)


def test_versions_sort_from_old_to_new() -> None:
    ordered = ["0.1.dev19262", "0.5.6", "0.5.6.post2", "0.5.14", "1.3.0rc2", "1.3.0rc20", "1.3.0"]
    assert sorted(ordered, key=version_key) == ordered


@given(parts=st.lists(st.integers(0, 99), min_size=2, max_size=4))
def test_a_later_last_part_is_a_later_version(parts: list[int]) -> None:
    later = [*parts[:-1], parts[-1] + 1]
    assert version_key(".".join(map(str, later))) > version_key(".".join(map(str, parts)))


@needs_silicon
def test_a_table_is_read_in_seconds_with_its_hash() -> None:
    table = tables.read_table("h200_sxm", "gemm", "vllm", "gemm_perf")
    assert table.version == "0.24.0"
    assert table.data_hash.startswith("sha256:")
    assert table.rows > 100_000
    shape = {"m": 32768, "n": 65536, "k": 12288, "gemm_dtype": "bfloat16"}
    row = np.logical_and.reduce([table.columns[name] == value for name, value in shape.items()])
    # 52.8 TFLOP in bf16: 53 ms at the peak of 989 TFLOP/s
    assert table.measured_s()[row] == pytest.approx([0.0638], abs=1e-4)


@needs_silicon
def test_a_partial_collection_is_passed_over() -> None:
    assert tables.has_table("h200_sxm", "moe", "trtllm", "moe_perf")
    assert tables.choose_version("h200_sxm", "moe", "trtllm", "moe_perf") == "1.3.0rc20"


@needs_silicon
def test_an_unknown_table_is_refused_with_what_exists() -> None:
    assert "h200_sxm" in tables.silicon_systems()
    with pytest.raises(UnsupportedError, match="did you mean 'h200_sxm'"):
        tables.read_table("h200", "gemm", "vllm", "gemm_perf")


@pytest.mark.skipif(tables.has_silicon(), reason="the measured tables are installed")
def test_without_the_package_the_pip_line_is_given() -> None:
    with pytest.raises(MissingDependencyError, match="pip install"):
        tables.silicon_root()
