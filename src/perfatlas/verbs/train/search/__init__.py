"""The best layout of a training job, from bounds and prices of all legal ones."""

from __future__ import annotations
