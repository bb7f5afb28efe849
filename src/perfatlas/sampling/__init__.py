"""Sample quantiles; knows nothing of what is sampled."""

from __future__ import annotations
