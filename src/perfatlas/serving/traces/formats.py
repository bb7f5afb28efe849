"""The readers of request formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error
from perfatlas.serving.traces.aiperf import read_aiperf
from perfatlas.serving.traces.azure import read_azure
from perfatlas.serving.traces.dynamo import read_dynamo
from perfatlas.serving.traces.mooncake import read_mooncake
from perfatlas.serving.traces.otel import read_otel
from perfatlas.serving.traces.own import read_own
from perfatlas.serving.traces.reading import WHOLE_TRACE, Trace, TraceWindow
from perfatlas.serving.traces.vllm import read_vllm
from perfatlas.serving.traces.weka import read_weka

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

OWN_FORMAT: Final = "perfatlas"
REQUEST_FORMATS: Final[Mapping[str, Callable[[str | Path, TraceWindow], Trace]]] = {
    OWN_FORMAT: read_own,
    "azure": read_azure,
    "mooncake": read_mooncake,
    "vllm": read_vllm,
    "aiperf": read_aiperf,
    "weka": read_weka,
    "dynamo": read_dynamo,
    "otel": read_otel,
}


def read_requests(
    path: str | Path, request_format: str = OWN_FORMAT, window: TraceWindow = WHOLE_TRACE
) -> Trace:
    """Return the requests of a file, with warnings.

    Raises:
        InvalidSpecError: The format is unknown, the file cannot be read, or a row is invalid; the
            message contains the line.
    """
    if request_format not in REQUEST_FORMATS:
        raise InvalidSpecError(
            f"unknown request format {repr_for_error(request_format)}"
            f"{did_you_mean(request_format, REQUEST_FORMATS)}; known: {', '.join(REQUEST_FORMATS)}"
        )
    return REQUEST_FORMATS[request_format](path, window)
