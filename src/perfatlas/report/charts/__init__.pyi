from .svg import (
    CHART_STYLE as CHART_STYLE,
    HOVER_SCRIPT as HOVER_SCRIPT,
    Chart as Chart,
    Line as Line,
    Span as Span,
    chart_html as chart_html,
    log_ticks as log_ticks,
    ticks as ticks,
)
