from __future__ import annotations

from hypothesis import given, strategies as st

from perfatlas.report.text.answer import memory_bar, share_cells

amounts = st.lists(st.floats(0, 1e12), min_size=1, max_size=5).filter(lambda a: sum(a) > 0)


@given(amounts, st.integers(5, 120))
def test_the_bar_is_full_and_shows_every_part(parts: list[float], cells: int) -> None:
    shared = share_cells(parts, cells)
    assert sum(shared) == cells
    for part, have in zip(parts, shared, strict=True):
        # a part is shown if it is there at all, and is drawn within a few cells of its share
        assert (have > 0) == (cells * part / sum(parts) > 0)
        assert abs(have - cells * part / sum(parts)) <= len(parts)


def test_half_a_gpu_is_half_a_bar() -> None:
    memory = {"weights_bytes": 40e9, "total_bytes": 40e9, "capacity_bytes": 80e9, "fits": True}
    bar = memory_bar(memory, width=24, unicode=False).plain.splitlines()[0]
    assert bar == "  [WWWWWWWWWW..........]"
