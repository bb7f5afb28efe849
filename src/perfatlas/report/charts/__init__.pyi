from .colours import (
    BLUE as BLUE,
    BROWN as BROWN,
    COLOURS as COLOURS,
    GREEN as GREEN,
    GREY as GREY,
    OLIVE as OLIVE,
    ORANGE as ORANGE,
    PINK as PINK,
    PURPLE as PURPLE,
    RED as RED,
    SKY as SKY,
    SLATE as SLATE,
    TEAL as TEAL,
    YELLOW as YELLOW,
)
from .figures import (
    Axis as Axis,
    Bar as Bar,
    BarPart as BarPart,
    Line as Line,
    Span as Span,
    bar_chart as bar_chart,
    days_chart as days_chart,
    figure_json as figure_json,
    histogram as histogram,
    line_chart as line_chart,
    stacked_bars as stacked_bars,
    waterfall as waterfall,
)
from .library import (
    SCRIPTS as SCRIPTS,
    Script as Script,
    plotly_script as plotly_script,
)
from .pipeline import (
    pipeline_chart as pipeline_chart,
)
