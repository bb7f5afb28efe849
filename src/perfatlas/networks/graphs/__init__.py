"""Networks given as graphs of operators: vision, diffusion, speech, encoders, recommenders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.networks.graphs.imports import Imported as Imported
    from perfatlas.networks.graphs.nodes import (
        GROUP_NORM as GROUP_NORM,
        ROW_PASSES as ROW_PASSES,
        Node as Node,
    )
    from perfatlas.networks.graphs.reader import read_graph as read_graph
    from perfatlas.networks.graphs.writer import graph_text as graph_text
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
