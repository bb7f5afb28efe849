from .pipeline import (
    pipeline_trace_text as pipeline_trace_text,
)
from .requests import (
    requests_trace_text as requests_trace_text,
)
from .step import (
    chrome_trace_text as chrome_trace_text,
)
