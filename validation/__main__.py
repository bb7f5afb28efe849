"""`python -m validation`."""

from __future__ import annotations

from validation.program import main

raise SystemExit(main())
