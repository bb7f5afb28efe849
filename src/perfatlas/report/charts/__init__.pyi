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
from .drawings import (
    Axis as Axis,
    Bar as Bar,
    BarChart as BarChart,
    BarPart as BarPart,
    DaysChart as DaysChart,
    Drawing as Drawing,
    Histogram as Histogram,
    Line as Line,
    LineChart as LineChart,
    PipelineChart as PipelineChart,
    Span as Span,
    StackedBars as StackedBars,
    Waterfall as Waterfall,
)
from .figures import (
    figure_json as figure_json,
    plotly_figure as plotly_figure,
)
from .images import (
    figure_bytes as figure_bytes,
    figure_format as figure_format,
    require_matplotlib as require_matplotlib,
)
from .library import (
    SCRIPTS as SCRIPTS,
    Script as Script,
    plotly_script as plotly_script,
)
