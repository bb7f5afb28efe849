"""The answer of a command line in this process: its JSON object and the body of its page."""

from __future__ import annotations

import base64
import io
import json
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.commands.flags import FlagsSignature, positional_fields, read_words
from perfatlas.commands.output import collected_json, flag_arguments, refused_command
from perfatlas.declarations import commands
from perfatlas.quantities import PerfatlasError
from perfatlas.web.questions import SWITCHES
from perfatlas.web.uploads import located, without_paths

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from cyclopts import CycloptsError

BODY_TAGS: Final = ("<body>", "</body>")  # texts of a page are escaped, so that each is there once
SCRIPT_TAG: Final = "<script>"  # that draws the charts, at the end of the body
STATUS_OF_ERROR: Final = {  # HTTP status by error code
    "usage": 400,
    "invalid": 400,
    "defect": 500,
    "busy": 503,
    "time_limit": 504,
}
PAGE_FLAGS: Final = {"fleet report": "output", "report": "output"}  # where not html
PAGE_ONLY: Final = ("report",)  # commands without --json
STATUS_OF_OTHERS: Final = 422  # of other errors


class Reply(NamedTuple):
    """The reply to a question."""

    status: int  # HTTP status
    answer: dict[str, Any]  # The object that --json writes, or {error_code, error, advice}
    body: str = ""  # HTML of the page that --html writes, inside its body; "" if it has none
    image: str = ""  # The image that --figure writes, in base64, if it is asked for

    @classmethod
    def refused(
        cls, code: str, message: str, *, status: int = 0, advice: Sequence[str] = ()
    ) -> Reply:
        """Return the reply to a question that has no answer."""
        answer = {"error_code": code, "error": message, "advice": list(advice)}
        return cls(status or STATUS_OF_ERROR.get(code, STATUS_OF_OTHERS), answer)

    @property
    def is_answer(self) -> bool:
        """Whether there is an answer."""
        return self.status == 200


class _Lines(io.StringIO):
    """A stream that passes on every complete line, unless it names a file of the server."""

    def __init__(self, tell: Callable[[str], None], file: Path | None) -> None:
        super().__init__()
        self._tell, self._file = tell, file
        self._rest = ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in filter(str.strip, lines):
            if not self._file or str(self._file) not in line:
                self._tell(line.removeprefix("perfatlas: "))
        return len(text)


def answer_command_line(
    words: Sequence[str],
    *,
    command: str,
    page: Path | None,
    tell: Callable[[str], None],
    uploads: str = "",
) -> Reply:
    """Return the reply to a command line, the same that --json and --html write.

    Args:
        words: The command line, which names no files but those of clients.
        command: The command that the words begin with.
        page: A file that the page, or by its extension the image of its charts, is written to, read
            from and deleted; None for neither.
        tell: Gets each line of progress; it must not write to stdout.
        uploads: The folder of files of clients, which the reply does not name.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from perfatlas.web import answer_command_line
        >>> words = "goodput --gpus=8 --mtti-s=3h --restart-s=60 --checkpoint-write-s=10".split()
        >>> lines = []
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = Path(folder, "page.html")
        ...     reply = answer_command_line(words, command="goodput", page=page, tell=lines.append)
        >>> reply.status, sorted(reply.answer)[:3], reply.body.lstrip()[:8]
        (200, ['breakdown', 'command', 'evidence'], '<header>')
    """
    from cyclopts import CycloptsError

    with_paths = list(words)
    options: dict[str, Any] = {} if command in PAGE_ONLY else {"json": True}
    if page and page.suffix != ".html":
        options["figure"] = page
    elif page:
        options |= {PAGE_FLAGS.get(command, "html"): page, "html_script": "none"}
    try:
        with_paths = located(words, uploads)
        with (
            redirect_stdout(io.StringIO()),
            redirect_stderr(_Lines(lambda line: tell(without_paths(line, uploads)), page)),
            collected_json() as answers,
        ):
            _run(command, with_paths[len(command.split()) :], options)
    except (CycloptsError, PerfatlasError) as problem:
        reply = _refused(problem, words)
        text = without_paths(json.dumps(reply.answer), uploads)
        return reply._replace(answer=json.loads(text))
    except MemoryError:
        return Reply.refused("too_large", "the question needs more memory than a worker has")
    body, image = "", ""
    if page and page.exists():
        if page.suffix == ".html":
            body = page.read_text("utf-8").replace(f"{page.parent}/", "")
        else:
            image = base64.b64encode(page.read_bytes()).decode()
        page.unlink()
    answer = answers[0] if answers else {}
    if with_paths != list(words):
        answer = json.loads(without_paths(json.dumps(answer), uploads))
    return Reply(200, answer, _body(without_paths(body, uploads)), image)


def _body(page: str) -> str:
    """Return what is inside the body of a page, without the script that draws its charts."""
    inside = page.partition(BODY_TAGS[0])[2].partition(BODY_TAGS[1])[0]
    return inside.partition(SCRIPT_TAG)[0]


def _run(command: str, words: Sequence[str], options: Mapping[str, Any]) -> None:
    """Run a command as the command line does.

    Args:
        words: What follows the command.
        options: Its flags that are no fields, by name.
    """
    from cyclopts import App

    package, row = commands()[command]
    module, _, name = row.run.partition(":")
    function = getattr(import_module(f"{package}.{module}"), name)
    call: Callable[[], int] | None = None
    signature = getattr(function, "__signature__", None)
    if isinstance(signature, FlagsSignature):
        with suppress(ValueError):  # of which that library says why, below
            fields, others = read_words(command, words)
            switches = {word[2:]: True for word in others}
            if switches.keys() <= SWITCHES.get(command, {}).keys():
                first = [fields.pop(name) for name in positional_fields(command) if name in fields]
                arguments = flag_arguments(function, {**switches, **options})
                call = partial(function, *first, flags=SimpleNamespace(**fields), **arguments)
    if call is not None:
        call()
        return
    app = App(name=command, help_flags=(), version_flags=(), result_action="return_value")
    app.default(function)
    flags = {f"--{name.replace('_', '-')}": value for name, value in options.items()}
    stated = [flag if value is True else f"{flag}={value}" for flag, value in flags.items()]
    app([*words, *stated], exit_on_error=False, print_error=False)


def _refused(problem: CycloptsError | PerfatlasError, words: Sequence[str]) -> Reply:
    """Return the reply to a question that the command line refuses."""
    refused = refused_command(problem, words).answer
    error = refused.pop("error")
    message = getattr(problem, "message", "") or error["message"]
    reply = Reply.refused(error["code"], message, advice=error.get("advice", ()))
    return reply._replace(answer=refused | reply.answer)
