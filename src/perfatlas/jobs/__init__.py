"""Many jobs on one cluster: who waits, who runs where, and what a failing node does to them."""

from __future__ import annotations
