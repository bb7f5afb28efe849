"""Scheduling of many jobs on one cluster: queueing, placement and node failures."""
