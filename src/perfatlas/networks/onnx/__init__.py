"""Graphs of ONNX; the only reader that imports the package onnx."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.networks.onnx.graph import nodes_of_file
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
