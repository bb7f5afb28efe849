"""Networks that are graphs of operators: the catalog, and published measurements."""
