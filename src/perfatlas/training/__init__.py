"""Training: pipeline schedules, overlap of communication, and the training step."""

from __future__ import annotations
