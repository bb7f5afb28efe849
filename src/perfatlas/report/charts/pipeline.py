"""The picture of a pipeline schedule: one row per rank, one bar per pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.charts.colours import BLUE, GREEN, ORANGE, TEAL
from perfatlas.report.charts.figures import Axis, axis_layout, new_figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import plotly.graph_objects as go

# Pass -> its name in the legend and its color.
PASSES: Final = {
    "forward": ("forward", BLUE),
    "backward": ("backward", ORANGE),
    "input_gradient": ("input gradient", TEAL),
    "weight_gradient": ("weight gradient", GREEN),
}
ROW: Final = 0.9  # height of a bar of a row of height 1
ROW_PIXELS: Final = 26
MARGIN_PIXELS: Final = 110
MOST_LABELS: Final = 400  # more passes are not labelled with their micro-batch


def pipeline_chart(timeline: Mapping[str, Any]) -> go.Figure:
    """Return the passes of each rank over time, rank 0 on top.

    The two passes of an overlapped pair share the height of the row.

    Args:
        timeline: Columns rank, stage, chunk, micro_batch, pass, overlapped, start_s and end_s.
    """
    rows = [
        dict(zip(timeline, values, strict=True)) for values in zip(*timeline.values(), strict=True)
    ]
    ranks = 1 + max((int(row["rank"]) for row in rows), default=0)
    figure = new_figure(MARGIN_PIXELS + ROW_PIXELS * ranks)
    for name, (title, colour) in PASSES.items():
        for overlapped in (False, True):
            drawn = [
                row for row in rows if row["pass"] == name and bool(row["overlapped"]) is overlapped
            ]
            if drawn:
                _add_bars(figure, drawn, title, colour, labelled=len(rows) <= MOST_LABELS)
    figure.update_layout(barmode="overlay", showlegend=True, bargap=0)
    figure.update_xaxes(axis_layout(Axis("time", "s")))
    figure.update_yaxes(
        title={"text": "pipeline rank"}, range=[ranks - 0.5, -0.5], dtick=1 if ranks <= 16 else None
    )
    return figure


def _add_bars(
    figure: go.Figure, rows: Sequence[Mapping[str, Any]], title: str, colour: str, *, labelled: bool
) -> None:
    """Add the bars of one kind of pass, of half the height where passes overlap."""
    overlapped = bool(rows[0]["overlapped"])
    height = ROW / 2 if overlapped else ROW
    is_forward = "forward" in {row["pass"] for row in rows}
    figure.add_bar(
        orientation="h",
        name=title,
        legendgroup=title,
        showlegend=not any(one.legendgroup == title for one in figure.data),
        base=[float(row["start_s"]) for row in rows],
        x=[float(row["end_s"]) - float(row["start_s"]) for row in rows],
        y=[int(row["rank"]) for row in rows],
        offset=0 if overlapped and not is_forward else -ROW / 2,
        width=height,
        text=[str(int(row["micro_batch"])) for row in rows] if labelled else None,
        textposition="inside",
        insidetextanchor="middle",
        marker={"color": colour, "line": {"width": 0.5, "color": "white"}},
        customdata=[[int(row["micro_batch"]), int(row["stage"])] for row in rows],
        hovertemplate=f"{title}<br>micro-batch %{{customdata[0]}}, stage %{{customdata[1]}}"
        "<br>starts at %{base:.4~s}s, lasts %{x:.4~s}s<extra></extra>",
    )
