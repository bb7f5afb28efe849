from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perfatlas.cli import main
from perfatlas.commands.flags import OutputFlags
from perfatlas.commands.output import TableQuestion, answer_table, wants_table
from perfatlas.files import read_table
from perfatlas.quantities import UsageError
from perfatlas.verbs.goodput import goodput_spares
from tests.examples import few


def doubled(questions: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Answer with twice the batch; an invalid batch is the error of its row."""
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


def asked(names: list[str], first: str, set_fields: dict[str, Any]) -> TableQuestion:
    return TableQuestion(command="test", names=names, first=first, set_fields=set_fields)


def test_rows_keep_what_they_had_and_gain_answers(tmp_path: Path) -> None:
    output = flags(tmp_path, "in.csv", "out.csv", "id,batch,note\n007,4,a\n008,,\n")
    summary = answer_table(doubled, output, asked(["batch", "tp"], "doubled", {"batch": 8}))
    assert (tmp_path / "out.csv").read_text() == (
        "id,batch,note,doubled,error_code,error\n007,4,a,8.0,,\n008,,,16.0,,\n"
    )
    assert (summary["rows"], summary["answered"], summary["failed"]) == (2, 2, 0)


def test_a_row_without_answer_has_an_error_and_others_continue(tmp_path: Path) -> None:
    output = flags(tmp_path, "in.jsonl", "out.jsonl", '{"batch": "x"}\n{"batch": 2}\n')
    summary = answer_table(doubled, output, asked(["batch"], "doubled", {}))
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert rows[0] == {"batch": "x", "doubled": None, "error_code": "invalid", "error": "no number"}
    assert rows[1] == {"batch": 2, "doubled": 4.0, "error_code": None, "error": None}
    assert summary["failed"] == 1


MODEL = "meta-llama/Llama-3.1-8B-Instruct"
VERBS = [
    (["estimate"], f"model,system,batch,gpus\n{MODEL},h200_sxm,4,\n{MODEL},cpu,4,\n"),
    (["kernel", "gemm"], "system,m,n,k,tier\nh200_sxm,8,8,8,\ntpu_v7,8,8,8,\n"),
    (["kernel", "gemm", "--n", "8", "--k", "8"], "system,m\ntpu_v7,8\nh200_sxm,8\n"),
    (["collective", "--op", "all_reduce", "--bytes", "1MB"], "system,gpus\ntpu_v7,8\n"),
    (
        ["simulate", "--model", MODEL, "--system", "h200_sxm", "--num-requests", "20"],
        "request_rate,kv_blocks\n5,\n5,2000\n",
    ),
    (
        ["simulate", "--model", MODEL, "--system", "h200_sxm", "--num-requests", "20"],
        "request_rate\n5\n20\n",
    ),
    (["fleet", "schedule", "--num-jobs", "50"], "nodes,load,max_job_gpus,jobs\n8,0.8,8,\n"),
    (["goodput"], "failure_rate,gpus,restart_s,checkpoint_write_s\nrsc1_node,1024,300,60\n"),
    (
        ["goodput", "--restart-s", "300", "--checkpoint-write-s", "60", "--half-width", "0.05"],
        "fleet,gpus,mtti_s,work_s\nllama3,8192,,86400\n,8192,3600,\nllama3,8192,,\n",
    ),
    (["goodput", "spares"], "nodes,node_mtbf_s,repair_s,target,spares\n72,1e6,1e4,0.99,\n"),
]


@pytest.mark.parametrize(("verb", "text"), few(VERBS, every=2))
def test_answered_tables_can_be_answered_again_by_every_verb(
    tmp_path: Path, verb: list[str], text: str
) -> None:
    first, second, third = (tmp_path / f"{number}.csv" for number in range(3))
    first.write_text(text, "utf-8")
    for source, target in ((first, second), (second, third)):
        assert main([*verb, "--table", str(source), "--output", str(target)]) == 0
    assert third.read_text("utf-8") == second.read_text("utf-8")
    asked, answered = read_table(first), read_table(second)
    assert {name: answered.columns[name] for name in asked.columns} == asked.columns
    assert not any(answered.cells("error_code"))


def test_a_table_is_never_written_over_its_questions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, link = tmp_path / "t.csv", tmp_path / "link.csv"
    path.write_text("model\nx\n")
    link.symlink_to(path)
    for verb in sorted({" ".join(verb[:2]).split(" --")[0] for verb, _ in VERBS}):
        for target in (path, link):
            words = ["--table", str(path), "--output", str(target)]
            assert main([*verb.split(), *words]) == 2, verb
            assert "answers would replace the scenarios" in capsys.readouterr().err
    assert path.read_text() == "model\nx\n"


def test_a_label_named_as_an_answer_is_kept(tmp_path: Path) -> None:
    output = flags(tmp_path, "in.csv", "out.csv", "doubled,batch,error\n7,4,0.1\n")
    answer_table(doubled, output, asked(["batch"], "doubled", {}))
    assert (tmp_path / "out.csv").read_text() == (
        "doubled,batch,result_doubled,error_code,error\n7,4,8.0,,\n"
    )
    again = OutputFlags(table=tmp_path / "out.csv", output=tmp_path / "again.csv")
    answer_table(doubled, again, asked(["batch"], "doubled", {}))
    assert (tmp_path / "again.csv").read_text() == (tmp_path / "out.csv").read_text()


def test_an_empty_table_is_answered_with_nothing(tmp_path: Path) -> None:
    output = flags(tmp_path, "in.csv", "out.csv", "batch,id\n")
    assert answer_table(doubled, output, asked(["batch"], "doubled", {}))["rows"] == 0
    assert (tmp_path / "out.csv").read_text() == "batch,id\n"


def test_input_cells_are_never_overwritten(tmp_path: Path) -> None:
    text = "nodes,node_mtbf_s,repair_s,target,spares\n72,1e6,1e4,0.99,\n72,1e6,1e4,,007\n"
    output = flags(tmp_path, "in.csv", "out.csv", text)
    words = ["--table", str(output.table), "--output", str(output.output)]
    assert main(["goodput", "spares", *words]) == 0
    table = read_table(tmp_path / "out.csv")
    alone = goodput_spares(nodes=72, node_mtbf_s=1e6, repair_s=1e4, target=0.99)
    assert [cell or "" for cell in table.columns["spares"]] == ["", "007"]
    assert table.cells("result_spares") == [alone.results["spares"], 7]


def test_table_and_output_belong_together(tmp_path: Path) -> None:
    assert not wants_table(OutputFlags())
    with pytest.raises(UsageError, match="must be used together"):
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
    (tmp_path / "in.csv").write_text("system,tier\ncpu,\nh200_sxm,bound\nh200_sxm,\n")
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


@pytest.mark.parametrize(
    ("verb", "column", "meant"),
    [
        (["goodput"], "detecton_s", "detection_s"),  # a letter left out
        (["goodput"], "mtti_h", "mtti_s"),  # another unit
        (["goodput"], "duration", "duration_s"),  # no unit
        (["goodput", "spares"], "Spares", "spares"),
        (["goodput", "spares"], "traget", "target"),  # two letters change places
        (["estimate"], "bacth", "batch"),
        (["kernel", "gemm"], "Systm", "system"),
        (["collective"], "byts", "bytes"),
        (["simulate"], "request_ratee", "request_rate"),  # a letter too many
        (["fleet", "schedule"], "backfil", "backfill"),
        (["fleet", "schedule"], "node", "nodes"),
    ],
)
def test_nearly_matching_columns_are_refused_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: list[str], column: str, meant: str
) -> None:
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text(f"seed,{column}\n0,600\n")
    assert main([*verb, "--table", str(source), "--output", str(target)]) == 3
    said = " ".join(capsys.readouterr().err.split())
    assert f"column {column!r} would be ignored; did you mean {meant!r}?" in said
    assert not target.exists()


def test_labels_and_near_names_beside_the_field_pass(tmp_path: Path) -> None:
    labels = ["name", "note", "id", "team", "speed", "model_name", "gpu_type", "tps", "measured_s"]
    line = ",".join([*labels, "nodes", "node_mtbf_s", "repair_s", "spares"])
    (tmp_path / "in.csv").write_text(f"{line}\n{'x,' * len(labels)}72,1e6,1e4,1\n")
    tables = ["--table", str(tmp_path / "in.csv"), "--output", str(tmp_path / "out.csv")]
    assert main(["goodput", "spares", *tables]) == 0
    table = read_table(tmp_path / "out.csv")
    assert [table.cells(label) for label in labels] == [["x"]] * len(labels)
    assert table.cells("error_code") == [None]
