"""Networks given as graphs of operators: vision, diffusion, speech, encoders, recommenders."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.networks.graphs.imports import Imported
    from perfatlas.networks.graphs.network import GraphNetwork
    from perfatlas.networks.graphs.nodes import GROUP_NORM, ROW_PASSES, Node
    from perfatlas.networks.graphs.reader import read_graph
    from perfatlas.networks.graphs.writer import graph_text
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
