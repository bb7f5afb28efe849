"""The kernel lab: kernels analysed, compiled and measured."""

from __future__ import annotations
