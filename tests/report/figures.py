"""Figures with their values as attributes, None where a figure leaves one out."""

from __future__ import annotations

import json
from typing import Any

from perfatlas.report.charts import Drawing, plotly_figure as figure_values


class Values(dict[str, Any]):
    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a value of a figure
        return self.get(name)


def plotly_figure(drawing: Drawing) -> Any:  # noqa: ANN401 - a figure
    """Return the figure of a chart, as a page reads it from JSON."""
    return json.loads(json.dumps(figure_values(drawing)), object_hook=Values)
