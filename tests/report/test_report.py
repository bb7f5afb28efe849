"""Reports of saved answers and runs, as HTML and Markdown."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import perfatlas
from perfatlas.cli import main
from perfatlas.verbs.report.conclusion import concluded


@pytest.fixture
def answers(tmp_path: Path) -> list[str]:
    """Return files of two answers."""
    paths = []
    for system in ("h100_sxm", "h200_sxm"):
        answer = perfatlas.kernel_gemm(system=system, m=64, n=512, k=512)
        path = tmp_path / f"{system}.json"
        path.write_text(json.dumps(answer.to_dict()), "utf-8")
        paths.append(str(path))
    return paths


def test_markdown_has_questions_answers_figures_and_commands(
    answers: list[str], tmp_path: Path
) -> None:
    target = tmp_path / "report.md"
    assert main(["report", *answers, "--output", str(target)]) == 0
    text = target.read_text("utf-8")
    lines = text.splitlines()
    assert lines[0] == "# kernel gemm: h100\\_sxm or h200\\_sxm"
    times = [
        str(perfatlas.kernel_gemm(system=one, m=64, n=512, k=512)).splitlines()[1].split(": ")[1]
        for one in ("h100_sxm", "h200_sxm")
    ]
    assert f"| time | {times[0]} | {times[1]} |" in lines
    assert "perfatlas kernel gemm --system h200_sxm --m 64 --n 512 --k 512" in lines
    assert "## h200\\_sxm: Evidence" in lines
    for number in range(1, 5):
        assert f"](report_{number}.svg)" in text
        assert (tmp_path / f"report_{number}.svg").read_bytes().startswith(b"<?xml")


def test_a_page_has_answers_and_a_run(
    answers: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    study = {
        "verb": "kernel gemm",
        "objective": "time_s",
        "scenario": {"system": "h200_sxm", "n": 512, "k": 512},
        "vary": {"m": [1, 64, 512]},
    }
    run = perfatlas.sweep(study, jobs=1).run.id
    target = tmp_path / "report.html"
    words = [answers[0], run, "--output", str(target), "--html-script", "none"]
    assert main(["report", *words]) == 0
    text = target.read_text("utf-8")
    for title in ("1: Roofline", "2: time by m", "2: Best rows"):
        assert f"<h2>{title}</h2>" in text
    assert f"perfatlas runs show {run}" in text


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        ("{}", "report.md", "no answer of perfatlas, as schema is missing"),
        ("no json", "report.md", "Expecting value"),
        ("{}", "report.pdf", "expected a file that ends in .html or .md"),
    ],
)
def test_what_is_no_answer_or_format_is_refused(
    content: str, name: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "answer.json"
    path.write_text(content, "utf-8")
    assert main(["report", str(path), "--output", str(tmp_path / name)]) in (2, 3)
    assert message in " ".join(capsys.readouterr().err.split())


# of each system: value and 90% interval, in round numbers
ROUND: dict[str, dict[str, tuple[float, float, float]]] = {
    "h100_sxm": {
        "output_tokens_per_s_per_gpu": (1000.0, 900.0, 1100.0),
        "usd_per_million_output_tokens": (2.0, 1.9, 2.1),
        "energy_per_output_token_j": (1.0, 0.8, 1.25),
    },
    "h200_sxm": {
        "output_tokens_per_s_per_gpu": (2000.0, 1800.0, 2200.0),
        "usd_per_million_output_tokens": (1.5, 1.4, 1.6),
        "energy_per_output_token_j": (0.9, 0.6, 1.3),
    },
}


def round_answers() -> list[dict[str, Any]]:
    """Return estimates of two systems with round results."""
    answers = []
    for system, metrics in ROUND.items():
        answer = perfatlas.estimate(model="meta-llama/Llama-3.1-8B", system=system, batch=8)
        answers.append(answer.to_dict())
        for name, values in metrics.items():
            ends = zip((name, f"{name}_low", f"{name}_high"), values, strict=True)
            answers[-1]["results"].update(ends)
    return answers


def said(answers: list[dict[str, Any]]) -> list[str]:
    (conclusion,) = (one for one in concluded(answers)[1] if one.title == "Conclusion")
    return [str(block) for block in conclusion.blocks]


def in_short(answers: list[dict[str, Any]]) -> str:
    first = concluded(answers)[1][0]
    assert first.title == "In short"
    return str(first.blocks[0])


def test_a_conclusion_by_hand() -> None:
    """Rates: 2 exp(+-hypot(ln 10/9, ln 1.1)) = 1.74 to 2.31.

    Energies: 0.9 exp(-hypot(ln 1.5, ln 1.25)) = 0.57, 0.9 exp(hypot(ln 13/9, ln 1.25)) = 1.38.
    Prices: 2 USD per million tokens at 2,000 tokens/s are 14.40 USD per hour, 1.5 USD 10.80.
    """
    title, sections, names = concluded(round_answers())
    assert names == ["h100_sxm", "h200_sxm"]
    assert title == "meta-llama/Llama-3.1-8B: h100_sxm or h200_sxm"
    winner, rate, cost, energy, price, measure = said(round_answers())
    assert winner == (
        "h200_sxm wins on tokens/s/GPU, cost/M tokens; h200_sxm is ahead, not certainly, on"
        " J/token."
    )
    assert "2,000 of h200_sxm, 1,000 of h100_sxm, x2.00; certain" in rate
    assert "is 1.74 to 2.31" in rate
    assert "x0.75; certain" in cost
    assert "x0.90; not certain: the 90% interval of the ratio is 0.57 to 1.38" in energy
    assert price.startswith("h200_sxm wins on cost up to 14.40 USD per GPU-hour, priced at 10.80")
    assert measure.startswith("Measure next: h200_sxm, whose interval of J/token is the widest")
    tables, *pictures = sections[2:]
    assert tables.title == "Results"
    assert len(pictures) == 3


def saved(**fields: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - any field
    """Return two saved answers with round results: the second is faster, at twice the price."""
    answers = round_answers()
    for answer, price in zip(answers, (2.0, 4.0), strict=True):
        results = answer["results"]
        results |= {"usd_per_hour": price, "gpus": 1, "ttft_s": price, "ttft_s_low": price}
        results |= {"ttft_s_high": price, "output_tokens_per_s_per_user": 100.0 / price}
        answer["scenario"] |= fields
    return answers


def test_two_saved_answers_in_short() -> None:
    """Costs: 1.5 / 2 = 75%; exp of log 0.75 -+ the hypotenuses of the logarithms of the ends.

    Low: 0.75 exp(-hypot(ln 1.5/1.4, ln 2.1/2)) = 0.69; high: 0.75 exp(hypot(ln 1.6/1.5, ln 2/1.9))
    = 0.81. Energies: 1e6 J are 0.278 kWh, 0.9e6 J 0.25 kWh.
    """
    assert in_short(saved(batch=8, isl=2048, osl=512)) == (
        "2 ways to serve Llama-3.1-8B are compared: H100 SXM (1 chip) and H200 SXM (1 chip),"
        " for 8 users at a time with requests of 2,048 tokens (pieces of words) and answers of"
        " 512. H200 SXM costs least: 1.50 USD for a million tokens of answers, 25% less than"
        " H100 SXM (2.00 USD). The order in cost is certain within the errors of the model: with"
        " a probability of 90%, the cost of H200 SXM is 69% to 81% of that of H100 SXM. H200 SXM"
        " does the most work: 2,000 tokens of answers per second and chip, 100% more than H100"
        " SXM (1,000; certain); H200 SXM takes the least energy: 0.25 kWh for a million tokens"
        " of answers, 10% less than H100 SXM (0.278 kWh; not certain). A user of H200 SXM waits"
        " 4.00 s for the first word and then receives 25 tokens per second; with H100 SXM it is"
        " 2.00 s and 50. H200 SXM stays the cheapest as long as one of its chips costs less than"
        " 14.40 USD per hour; 10.80 USD are assumed."
    )


def test_two_saved_answers_of_one_machine_in_short() -> None:
    """Without prices and energies the rate decides: 2,000 / 1,000 tokens/s, 1.74 to 2.31."""
    answers = saved(system="h100_sxm", batch=1, isl=1024, osl=1)
    answers[1]["scenario"]["tp"] = 2
    for answer in answers:
        for name in [one for one in answer["results"] if one.startswith(("usd", "energy", "ttft"))]:
            del answer["results"][name]
    assert in_short(answers) == (
        "2 ways to serve Llama-3.1-8B are compared: option 1 (1 chip) and option 2 (1 chip),"
        " the columns of the results below from left to right, for one user with requests of"
        " 1,024 tokens (pieces of words) and answers of 1. Option 2 does the most work: 2,000"
        " tokens of answers per second and chip, 100% more than option 1 (1,000). The order in"
        " speed is certain within the errors of the model: with a probability of 90%, the speed"
        " of option 2 is 174% to 231% of that of option 1. The prices of option 2 and option 1"
        " are not known."
    )


def test_in_short_names_what_does_not_fit_and_work_that_differs() -> None:
    answers = [*saved(batch=8), *saved(batch=8)[:1]]
    answers[2]["scenario"] |= {"system": "a100_sxm", "isl": 77}
    answers[2]["results"]["memory"]["fits"] = False
    told = in_short(answers)
    assert told.count(". ") == 5
    assert (
        "H100 SXM (1 chip, requests of 1,024 tokens (pieces of words) and answers of 128)" in told
    )
    assert "answers of 128, too little memory), at different loads, for 8 users at a time." in told
    first, second = saved(batch=8)
    first["results"]["usd_per_million_output_tokens_high"] = None
    assert "the cost of H200 SXM is at most 81% of that" in in_short([first, second])
    second["results"]["usd_per_million_output_tokens_high"] = None
    assert "the precision of the values is not known" in in_short([first, second])
    first, _ = saved(batch=8)
    assert "the cost of H200 SXM is at least 69% of that" in in_short([first, second])


def test_loads_and_slos_that_differ_are_stated() -> None:
    first, second = saved(batch=8)
    second["scenario"] |= {"batch": 16, "dp": 4}
    told = in_short([first, second])
    assert "H100 SXM (1 chip, 8 users at a time) and H200 SXM (1 chip, 64 users at a time)" in told
    assert ", at different loads, for users with requests of 1,024 tokens" in told
    for answer in (first, second):
        answer["scenario"] |= {"slo_ttft_s": 0.5, "slo_tpot_s": 0.04}
    limits = "each at its best with at most 500 ms to the first word and at most 40.0 ms per token."
    assert limits in in_short([first, second])
    second["scenario"]["slo_tpot_s"] = 0.1
    assert "each at its best with its own limits of time." in in_short([first, second])
    for answer, rate in ((first, 0.5), (second, 2.0)):
        answer["scenario"] |= {"request_rate": rate, "batch": None}
    assert "(1 chip, 0.5 requests per second)" in in_short([first, second])


def test_a_load_that_is_not_known_does_not_differ() -> None:
    """What does not fit has only the fields that were given."""
    answers = [*saved(batch=8), saved(batch=8)[0]]
    answers[2]["scenario"] = {"model": "meta-llama/Llama-3.1-8B", "system": "a100_sxm", "batch": 8}
    answers[2]["results"] = {"memory": {"fits": False}}
    told = in_short(answers)
    assert "and A100 SXM (too little memory), for 8 users at a time with requests of" in told


def test_a_useful_share_of_time_is_no_work() -> None:
    asked: dict[str, Any] = {"system": "h100_sxm", "checkpoint_write_s": 60, "restart_s": 300}
    told = in_short(
        [
            perfatlas.goodput(gpus=gpus, failure_rate="llama3_node_unexpected", **asked).to_dict()
            for gpus in (16384, 8192)
        ]
    )
    assert "option 1 (16,384 chips) and option 2 (8,192 chips)" in told
    assert "Option 2 loses least time: " in told
    assert "the useful share of option 2 is" in told
    assert "work:" not in told


def test_models_and_formats_name_the_options() -> None:
    """They are in the order of the answers, Qwen first."""
    first, second = saved(system="h100_sxm")
    first["scenario"]["model"] = "Qwen/Qwen3-8B"
    told = in_short([first, second])
    assert "to serve Qwen3-8B or Llama-3.1-8B are compared: Qwen3-8B (1 chip) and Llama" in told
    assert "Llama-3.1-8B costs least" in told
    second["scenario"] |= {"model": "Qwen/Qwen3-8B", "gemm_format": "fp8_static"}
    assert "Format fp8_static costs least" in in_short([first, second])
    second["scenario"] |= {"model": "openai/gpt-oss-20b", "system": "h200_sxm"}
    assert "H200 SXM with gpt-oss-20b in fp8_static costs least" in in_short([first, second])
    third = {**first, "scenario": {**first["scenario"], "tp": 2}}
    assert "option 1 (H100 SXM with Qwen3-8B in bf16, 1 chip)" in in_short([first, second, third])


def of_one_machine() -> list[dict[str, Any]]:
    """Return answers of one machine at 7.20 USD per hour, 1,000 and 2,000 tokens/s: 2 and 1 USD."""
    answers = saved(system="h100_sxm")
    answers[1]["scenario"]["tp"] = 2
    for end, cost in (("", 1.0), ("_low", 0.1), ("_high", 10.0)):
        answers[1]["results"][f"usd_per_million_output_tokens{end}"] = cost
    return answers


def test_one_price_of_one_machine_decides_nothing() -> None:
    """The interval of the cost is that of the rate, 1 / 2.31 to 1 / 1.74, and no price flips it."""
    answers = of_one_machine()
    told, conclusion = in_short(answers), " ".join(said(answers))
    assert "the cost of option 2 is 43% to 58% of that of option 1." in told
    assert "x0.50; certain, as the 90% interval of the ratio is 0.43 to 0.58" in conclusion
    assert "stays the cheapest" not in told
    assert "wins on cost up to" not in conclusion
    (other,) = saved()[:1]  # another machine at 2 USD: 14.40 USD of 7.20
    other["scenario"]["system"] = "h200_sxm"
    assert "costs less than 14.40 USD per hour; 7.20 USD are" in in_short([*answers, other])


def test_equal_options_have_no_order() -> None:
    first = saved()[0]
    told, conclusion = in_short([first, first]), " ".join(said([first, first]))
    assert told.endswith(
        "Option 1 and option 2 are equal: 2.00 USD for a million tokens of answers."
    )
    assert "wins on" not in conclusion
    other = {**first, "scenario": {**first["scenario"], "system": "h200_sxm"}}
    assert "stays" not in in_short([first, other])
    assert "wins on" not in " ".join(said([first, other]))


def test_missing_prices_are_named_and_all_options_are_compared() -> None:
    """2,000 over 1,000 and over 500 tokens/s."""
    answers = [*saved(), saved()[0]]
    answers[2]["scenario"]["system"] = "tpu_v6e"
    del answers[2]["results"]["usd_per_million_output_tokens"]
    for end in ("", "_low", "_high"):
        answers[2]["results"][f"output_tokens_per_s_per_gpu{end}"] = 500.0
    assert in_short(answers).endswith(
        "The prices of TPU V6E are not known; H200 SXM is the cheapest as long as one of its chips"
        " costs less than 2.00 times as much as one of H100 SXM and 4.00 times as much as one of"
        " TPU V6E."
    )
    assert any(one.startswith("Costs of tpu_v6e are not known; h200_sxm") for one in said(answers))


def test_what_does_not_fit_has_no_format_that_differs() -> None:
    first, second = round_answers()
    second["results"]["memory"]["fits"] = False
    for name in ("engine", "gemm_format", "kv_format"):
        del second["scenario"][name]
    first["scenario"]["system"] = second["scenario"]["system"] = "h100_sxm"
    second["scenario"]["tp"] = 2
    _, (_, results), names = concluded([first, second])
    assert names == ["1 GPU", "tp 2"]
    table = results.blocks[0]
    assert not {"format", "engine", "KV cache format"} & {row[0] for row in table.rows}  # type: ignore[union-attr]


def test_plans_formats_and_engines_that_differ_are_rows() -> None:
    first, second = round_answers()
    second["scenario"] |= {"tp": 2, "gemm_format": "fp8_static", "engine": "sglang@0.5.14"}
    second["results"]["gpus"] = 2
    title, (_, _, table, *_), _ = concluded([first, second])
    rows = {row[0]: list(row[1:]) for row in table.blocks[0].rows}  # type: ignore[union-attr]
    assert rows["GPUs"] == ["1", "2"]
    assert rows["plan"] == ["1 GPU", "tp 2"]
    assert rows["format"] == ["bf16", "fp8_static"]
    assert rows["engine"] == [first["scenario"]["engine"], "sglang@0.5.14"]
    assert "KV cache format" not in rows
    assert title == "meta-llama/Llama-3.1-8B: h100_sxm (1 GPU) or h200_sxm (tp 2)"


def test_what_changes_a_conclusion() -> None:
    first, second = round_answers()
    for name in [name for name in second["results"] if name.startswith("usd")]:
        del second["results"][name]
    assert any("less than 2.00 times that of h100_sxm" in one for one in said([first, second]))
    second["scenario"]["isl"] = 2048
    assert "Loads differ (isl): latencies are those of each load." in said([first, second])
    second["results"]["memory"]["fits"] = False
    assert said([first, second])[-1] == "h200_sxm does not fit in memory."
    train = perfatlas.train(
        model="meta-llama/Llama-3.1-8B", system="h100_sxm", gpus=8, global_batch=64
    )
    (sentence,) = said([first, train.to_dict()])
    assert "different questions (estimate and train): none wins" in sentence
    assert said([first, first])[0].startswith("the first two are equal in tokens/s/GPU")
    assert concluded([first]) == ("", [], [])


def test_a_comparison_concludes_what_to_measure(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B", "system": "h100_sxm", "batch": 8}
    answer = perfatlas.compare(**asked, systems=("h200_sxm",), decide=True).to_dict()
    case = next(row["case"] for row in answer["results"]["decisions"] if row["reason"] is None)
    assert said([answer])[-1].startswith(f"Measure next: {case} on ")
    path, page = tmp_path / "answer.json", tmp_path / "report.html"
    path.write_text(json.dumps(answer), "utf-8")
    assert main(["report", str(path), "--output", str(page), "--html-script", "none"]) == 0
    text = page.read_text("utf-8")
    assert text.index("<h2>Conclusion</h2>") < text.index("<h2>Results</h2>")
    assert text.index("<h2>Results</h2>") < text.index("Evidence</h2>")
    del answer["results"]["rows"][1]["error"]
    path.write_text(json.dumps(answer), "utf-8")
    assert main(["report", str(path), "--output", str(page), "--html-script", "none"]) == 3


def test_answers_of_searches_are_read_by_another_process(tmp_path: Path) -> None:
    files = []
    for system in ("h100_sxm", "h200_sxm"):
        asked: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B", "system": system, "gpus": 1}
        answer = perfatlas.search(**asked, slo_tpot_s=0.05, num_simulated=0)
        files.append(tmp_path / f"{system}.json")
        files[-1].write_text(json.dumps(answer.to_dict()), "utf-8")
    target = tmp_path / "report.html"
    words = [sys.executable, "-m", "perfatlas", "report", *map(str, files), "--output", str(target)]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "h200_sxm" in target.read_text("utf-8").partition("<h2>Conclusion</h2>")[2][:200]
