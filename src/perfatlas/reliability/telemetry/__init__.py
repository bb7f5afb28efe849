"""Cluster logs as histories of failures and repairs, and fits to them."""
