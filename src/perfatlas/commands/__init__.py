"""What the commands of all verbs share: flags made of fields, and what is written."""

from __future__ import annotations
