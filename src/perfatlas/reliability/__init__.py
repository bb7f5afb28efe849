"""Failures of large clusters: logs, one job on many nodes, many jobs on one cluster."""
