"""A cluster's own logs as histories of failures and repairs, and the laws fitted to them."""

from __future__ import annotations
