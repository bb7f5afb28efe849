from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from perfatlas.cli import main
from perfatlas.cli.table_run import answer_rows, answer_table, wants_table
from perfatlas.cli.vocabulary import OutputFlags
from perfatlas.files import read_table
from perfatlas.quantities import InvalidSpecError, UsageError
from perfatlas.scenario import goodput, goodput_spares

if TYPE_CHECKING:
    from pathlib import Path


def doubled(questions: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Answer with twice the batch; a batch that is no number is that row's error."""
    good = [isinstance(batch, int) for batch in questions["batch"]]
    rows = list(zip(good, questions["batch"], strict=True))
    return {
        "doubled": [2.0 * batch if ok else float("nan") for ok, batch in rows],
        "error_code": ["" if ok else "invalid" for ok in good],
        "error": ["" if ok else "no number" for ok in good],
    }


def flags(folder: Path, source: str, target: str, text: str) -> OutputFlags:
    (folder / source).write_text(text)
    return OutputFlags(table=folder / source, output=folder / target)


def test_rows_keep_what_they_had_and_gain_answers(tmp_path: Path) -> None:
    output = flags(tmp_path, "in.csv", "out.csv", "id,batch,note\n007,4,a\n008,,\n")
    summary = answer_table(doubled, output, asked={"batch": 8}, names=["batch", "tp"])
    assert (tmp_path / "out.csv").read_text() == (
        "id,batch,note,doubled,error_code,error\n007,4,a,8.0,,\n008,,,16.0,,\n"
    )
    assert (summary["rows"], summary["answered"], summary["failed"]) == (2, 2, 0)


def test_a_row_without_answer_says_why_and_stops_nobody(tmp_path: Path) -> None:
    output = flags(tmp_path, "in.jsonl", "out.jsonl", '{"batch": "x"}\n{"batch": 2}\n')
    summary = answer_table(doubled, output, asked={}, names=["batch"])
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert rows[0] == {"batch": "x", "doubled": None, "error_code": "invalid", "error": "no number"}
    assert rows[1] == {"batch": 2, "doubled": 4.0, "error_code": None, "error": None}
    assert summary["failed"] == 1


def test_an_answered_table_can_be_answered_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = flags(tmp_path, "in.csv", "out.csv", "batch\n4\n")
    answer_table(doubled, output, asked={}, names=["batch"])
    first = (tmp_path / "out.csv").read_text()
    again = OutputFlags(table=tmp_path / "out.csv", output=tmp_path / "out.csv")
    answer_table(doubled, again, asked={}, names=["batch"])
    assert (tmp_path / "out.csv").read_text() == first
    assert "earlier answer replaced: ['doubled', 'error', 'error_code']" in capsys.readouterr().err


def test_an_empty_table_is_answered_with_nothing(tmp_path: Path) -> None:
    output = flags(tmp_path, "in.csv", "out.csv", "batch,id\n")
    assert answer_table(doubled, output, asked={}, names=["batch"])["rows"] == 0
    assert (tmp_path / "out.csv").read_text() == "batch,id\n"


def test_verbs_of_one_operator_answer_row_by_row(tmp_path: Path) -> None:
    class Priced:
        def __init__(self, m: int) -> None:
            if m < 0:
                raise InvalidSpecError(f"m = {m}: expected a positive number")
            self.m = m

        def to_dict(self) -> dict[str, Any]:
            return {"results": {"time_s": 1e-6 * self.m}, "warnings": ["a", "b"]}

    output = flags(tmp_path, "in.csv", "out.csv", "m\n2\n-1\n")
    summary = answer_rows(Priced, output, asked={}, names=["m"])
    table = read_table(tmp_path / "out.csv")
    assert table.cells("error_code") == [None, "invalid"]
    assert table.cells("error") == [None, "m = -1: expected a positive number"]
    assert table.cells("warnings") == ["a; b", None]
    assert summary["failed"] == 1


def test_an_empty_cell_that_is_asked_and_answered_holds_the_answer(tmp_path: Path) -> None:
    text = "nodes,node_mtbf_s,repair_s,target,spares\n72,1e6,1e4,0.99,\n72,1e6,1e4,,007\n"
    output = flags(tmp_path, "in.csv", "out.csv", text)
    words = ["--table", str(output.table), "--output", str(output.output)]
    assert main(["goodput", "spares", *words]) == 0
    table = read_table(tmp_path / "out.csv")
    alone = goodput_spares(nodes=72, node_mtbf_s=1e6, repair_s=1e4, target=0.99)
    assert table.columns["spares"] == [str(alone.results["spares"]), "007"]


def test_a_row_carries_its_warnings(tmp_path: Path) -> None:
    text = "mtti_s,checkpoint_write_s,restart_s,method\n100,60,300,meta\n11134,60,300,\n"
    output = flags(tmp_path, "in.csv", "out.csv", text)
    assert main(["goodput", "--table", str(output.table), "--output", str(output.output)]) == 0
    first, second = read_table(tmp_path / "out.csv").cells("warnings")
    assert "method meta is not valid here" in first
    assert second is None


def test_a_linear_estimate_never_falls_below_nothing() -> None:
    fields = {"mtti_s": 100, "checkpoint_write_s": 60, "restart_s": 300}
    assert goodput(**fields, method="meta").results["goodput"] == 0.0
    assert goodput(**fields, method="young").results["goodput"] == 0.0


def test_table_and_output_belong_together(tmp_path: Path) -> None:
    assert not wants_table(OutputFlags())
    with pytest.raises(UsageError, match="belong together"):
        wants_table(OutputFlags(table=tmp_path / "in.csv"))


def test_a_bad_table_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.csv").write_text("a,b\n1\n")
    words = ["kernel", "gemm", "--table", str(tmp_path / "in.csv")]
    assert main([*words, "--output", str(tmp_path / "out.csv")]) == 3
    assert "record 2" in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_bound_in_a_table_has_no_upper_end(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "in.csv").write_text("system,tier\nmi300x,\nh200_sxm,bound\nh200_sxm,\n")
    tables = ["--table", str(tmp_path / "in.csv"), "--output", str(tmp_path / f"out{suffix}")]
    for words in (
        ["kernel", "gemm", "--m", "64", "--n", "8192", "--k", "8192"],
        ["collective", "--op", "all_reduce", "--bytes", "1MB", "--gpus", "8"],
    ):
        assert main([*words, *tables]) == 0
        table = read_table(tmp_path / f"out{suffix}")
        assert table.cells("time_s_low")[:2] == table.cells("bound_time_s")[:2]
        *bounds, measured = table.cells("time_s_high")
        assert bounds == [None, None]
        assert measured > table.cells("time_s")[2]


def test_a_table_of_bounds_alone_has_an_empty_column(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("m\n64\n")
    words = ["kernel", "gemm", "--system", "mi300x", "--n", "64", "--k", "64"]
    for suffix in (".csv", ".parquet"):
        tables = ["--table", str(tmp_path / "in.csv"), "--output", str(tmp_path / f"out{suffix}")]
        assert main([*words, *tables]) == 0
        assert read_table(tmp_path / f"out{suffix}").cells("time_s_high") == [None]


@pytest.mark.parametrize(
    ("verb", "text", "said"),
    [
        (
            ["estimate"],
            "modle,system,batch\nmeta-llama/Llama-3.1-8B,h200_sxm,4\n",
            "model is required; column 'modle' is not read; did you mean 'model'?",
        ),
        (
            ["kernel", "gemm"],
            "note,Systm,m,n,k\na,mi300x,8,8,8\n",
            "column 'Systm' is not read; did you mean 'system'?",
        ),
        (
            ["collective"],
            "system,op,byts,gpus\nmi300x,all_reduce,64,8\n",
            "column 'byts' is not read; did you mean 'bytes'?",
        ),
    ],
)
def test_a_misspelt_column_is_named_where_its_field_is_missing(
    tmp_path: Path, verb: list[str], text: str, said: str
) -> None:
    (tmp_path / "in.csv").write_text(text)
    tables = ["--table", str(tmp_path / "in.csv"), "--output", str(tmp_path / "out.csv")]
    assert main([*verb, *tables]) == 0
    (error,) = read_table(tmp_path / "out.csv").cells("error")
    assert "is required" in error
    assert error.endswith(said)


def test_other_columns_and_other_errors_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("system,m,n,k,note,mm\n,8,8,8,a,1\nmi300x,0,8,8,a,1\n")
    tables = ["--table", str(tmp_path / "in.csv"), "--output", str(tmp_path / "out.csv")]
    assert main(["kernel", "gemm", *tables]) == 0
    missing, wrong = read_table(tmp_path / "out.csv").cells("error")
    assert missing == "kernel gemm: system is required, such as h200_sxm"
    assert wrong == "m = 0: expected a whole number from 1 to 1e+09"
