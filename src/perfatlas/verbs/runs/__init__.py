"""Runs of `sweep`: list, show, export, compare, delete."""
