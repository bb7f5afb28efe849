from __future__ import annotations

from pathlib import Path

import pytest

from perfatlas.cli import main
from perfatlas.files import read_table

JOB = ["--checkpoint-write-s", "60", "--restart-s", "300"]


def test_an_answered_interval_leaves_the_question_as_it_was(tmp_path: Path) -> None:
    first, second, third = (tmp_path / f"{number}.csv" for number in range(3))
    first.write_text("mtti_s,failure_rate,gpus\n3600,,8\n,rsc1_node,1024\n", "utf-8")
    for source, target in ((first, second), (second, third)):
        assert main(["goodput", *JOB, "--table", str(source), "--output", str(target)]) == 0
        table = read_table(str(target))
        assert table.cells("mtti_s") == [3600, None]
        # 1,024 GPUs are 128 nodes; one fails 0.0065 times a day
        assert table.cells("result_mtti_s") == pytest.approx([3600, 86400 / (128 * 0.0065)])
        assert table.cells("error_code") == [None, None]
