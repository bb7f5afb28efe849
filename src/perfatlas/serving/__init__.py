"""Simulation of serving traffic: arrivals, schedulers, KV caches, one compiled event loop."""
