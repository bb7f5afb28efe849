"""Scenarios: their fields, their resolution to typed columns, and their deployments."""
