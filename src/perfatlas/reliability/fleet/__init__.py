"""Availability and goodput of large clusters: closed forms and a simulator that agree."""
