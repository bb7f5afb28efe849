from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest
from cyclopts import App

from perfatlas.cli import main
from perfatlas.cli.app import app
from tests.examples import few
from validation.program import main as validate, tree

ROOT = Path(__file__).parents[2]


def _refresh() -> ModuleType:
    spec = importlib.util.spec_from_file_location("refresh", ROOT / "docs" / "refresh.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


REFRESH = _refresh()
QUOTED = [path for path in REFRESH.documents() if REFRESH.BLOCK.search(path.read_text("utf-8"))]
# pages that quote the output of a study over thousands of runs
STUDIES: Final = ("validation/pages/plans.md", "validation/pages/serving.md")
MAINS: Final[dict[str, Callable[[list[str]], int]]] = {"perfatlas": main, "validation": validate}
PRINTED: dict[str, str | None] = {}  # of commands that several documents quote
LINK: Final = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCED: Final = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
HEADING: Final = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
OPTION: Final = re.compile(r"(?<![\w-])--[a-z](?:[a-z0-9-]*[a-z0-9])?(?![a-z0-9-])")
ENTRANCE: Final = ROOT / "docs" / "index.md"
# Of other tools, and of our benchmarks.
FOREIGN: Final = frozenset(
    {
        "--aic",
        "--aic-python",
        "--api-server-count",
        "--data-binary",
        "--append-result",
        "--candidates",
        "--cpu-offload-gb",
        "--csv",
        "--kernel-trace",
        "--label",
        "--offload-backend",
        "--output-format",
        "--stats",
        "--tag-output",
        "--timestamp",
        "--timestamps",
        "--detail",
        "--dynamo-python",
        "--headless",
        "--nnodes",
        "--pp-async-batch-depth",
        "--enable-dbo",
        "--enable-expert-parallel",
        "--enable-single-batch-overlap",
        "--enable-two-batch-overlap",
        "--host",
        "--import",
        "--llm-python",
        "--max-concurrency",
        "--muon-tp-mode",
        "--no-async-scheduling",
        "--nthreads",
        "--num-prompts",
        "--num-warmups",
        "--nworkers",
        "--output-file",
        "--report",
        "--sampled",
        "--save-detailed",
        "--save-result",
        "--simpy-jobs",
        "--simpy-python",
        "--streaming",
        "--tokenizer-worker-num",
        "--type",
    }
)


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.study] * (_name(path) in STUDIES)) for path in QUOTED],
    ids=[_name(path) for path in QUOTED],
)
def test_every_output_quoted_in_a_document_is_what_the_command_prints(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    REFRESH.prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name, value in REFRESH.TERMINAL.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    def printed(command: str) -> str | None:
        program, words = REFRESH.words_of(command)
        key = f"{program} {' '.join(words)}"
        if key not in PRINTED or "--output" in words:
            code = MAINS[program](words)
            told = capsys.readouterr()
            PRINTED[key] = None if code == REFRESH.NEEDS_EXTRA else told.out or told.err
        return PRINTED[key]

    text = path.read_text("utf-8")
    assert REFRESH.renewed(text, printed) == text, f"{path.name}: run python docs/refresh.py"


def test_a_document_is_renewed_by_commands_of_their_own() -> None:
    text = "```console\n$ perfatlas --version\nold\n```\n"
    version = REFRESH.output_of("perfatlas --version")
    assert REFRESH.renewed(text) == text.replace("old\n", version)
    assert REFRESH.excerpt("a\nb\nc\nd\n", "a\n...\nold\n") == "a\n...\nd"
    assert "README.md" in {path.name for path in QUOTED}


PICTURES: Final = {
    name: commands
    for path in REFRESH.documents()
    for name, commands in REFRESH.drawings(path.read_text("utf-8")).items()
}


@pytest.mark.parametrize("name", few(PICTURES, every=5))
def test_a_picture_of_a_document_is_what_its_command_draws(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = (REFRESH.IMAGES / name).read_bytes()
    matplotlib = pytest.importorskip("matplotlib")
    if f"Matplotlib v{matplotlib.__version__}".encode() not in shown:
        pytest.skip(f"docs/images/{name} is of another version of matplotlib")
    REFRESH.prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for command in PICTURES[name]:
        assert main(REFRESH.words_of(command)[1]) == 0
    assert (tmp_path / name).read_bytes() == shown, f"{name}: run python docs/refresh.py"


def test_every_picture_is_small_and_drawn_by_a_command_of_a_document() -> None:
    pictures = {path.name: path for path in REFRESH.IMAGES.glob("*.svg")}
    assert pictures.keys() == PICTURES.keys()
    assert max(path.stat().st_size for path in pictures.values()) <= 120_000
    (studio,) = REFRESH.IMAGES.glob("*.png")
    assert f"docs/images/{studio.name})" in (ROOT / "README.md").read_text("utf-8")
    assert studio.stat().st_size <= 200_000


def _links(path: Path) -> list[tuple[Path, str]]:
    """Return the file and the anchor of every link of a document to a file of the repository."""
    text = FENCED.sub("", path.read_text("utf-8"))
    links = []
    for target in LINK.findall(text):
        if "://" in target or target.startswith("mailto:"):
            continue
        file, _, anchor = target.partition("#")
        links.append(((path.parent / file).resolve() if file else path, anchor))
    return links


def _anchors(path: Path) -> set[str]:
    """Return the anchors of the headings of a document, as GitHub makes them."""
    found: list[str] = []
    for title in HEADING.findall(FENCED.sub("", path.read_text("utf-8"))):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.append(f"{slug}-{found.count(slug)}" if slug in found else slug)
    return set(found)


LINKING = [
    *REFRESH.documents(),
    *(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    ROOT / "measurements" / "README.md",
]


@pytest.mark.parametrize("path", LINKING, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_link_of_a_document_is_broken(path: Path) -> None:
    for file, anchor in _links(path):
        assert file.exists(), f"{path.name} links to {file}, which does not exist"
        if anchor:
            assert anchor in _anchors(file), f"{path.name}: {file.name} has no anchor #{anchor}"


def test_every_document_is_listed_by_the_index() -> None:
    listed = {file for file, _ in _links(ENTRANCE)}
    missing = sorted(set((ROOT / "docs").rglob("*.md")) - listed - {ENTRANCE})
    assert not missing, f"docs/index.md does not list {[path.name for path in missing]}"
    assert ENTRANCE in {file for file, _ in _links(ROOT / "README.md")}


def test_anchors_are_those_of_github(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A title, 90% of it\n## `code` [link](x.md)\n## Same\n## Same\n", "utf-8")
    assert _anchors(page) == {"a-title-90-of-it", "code-link", "same", "same-1"}


def _commands(tree: App, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield words
    for name in tree:
        if not name.startswith("-"):
            yield from _commands(tree[name], (*words, name))


def test_every_option_that_a_document_names_exists(capsys: pytest.CaptureFixture[str]) -> None:
    known = set(FOREIGN)
    for program, run in ((app, main), (tree(), validate)):
        for words in _commands(program):
            assert run([*words, "--help-all"]) == 0
            known |= set(OPTION.findall(capsys.readouterr().out))
    for path in REFRESH.documents():
        text = REFRESH.BLOCK.sub(lambda block: block[2], path.read_text("utf-8"))
        unknown = set(OPTION.findall(text)) - known
        assert not unknown, f"{path.name} names options that do not exist: {sorted(unknown)}"


def test_missed_goals_have_the_figures_of_their_pages() -> None:
    goals = (ROOT / "validation" / "pages" / "goals.md").read_text("utf-8")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in goals.partition("\n## ")[0].splitlines()
        if line.startswith("| ") and "](" in line
    ]
    assert len(rows) == 16
    for goal, reached, page, *_ in rows:
        found = LINK.search(page)
        assert found is not None, goal
        text = (ROOT / "validation" / "pages" / found[1]).read_text("utf-8")
        for figure in re.findall(r"-?\d[\d.,]*\d(?:%| µs| ms| GB/s| TFLOP/s)?", reached):
            assert figure in text, f"{goal}: {found[1]} does not have {figure}"


def test_the_summary_of_serving_runs_is_that_of_its_table() -> None:
    text = (ROOT / "validation" / "pages" / "serving.md").read_text("utf-8")
    for models in ("all", "dense", "with experts"):
        row = re.search(rf"^\| {models} \|(.*)\|$", text, re.MULTILINE)
        printed = re.search(rf"^{models} +(\d,\d+ .*)$", text, re.MULTILINE)
        assert row is not None
        assert printed is not None
        runs, median, mape, bias, inside, unseen = (cell.strip() for cell in row[1].split("|"))
        own = printed[1].split()
        assert [runs, mape, median, bias, inside, unseen] == own[:3] + own[4:7], models
