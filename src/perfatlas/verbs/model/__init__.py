"""`perfatlas model`: networks from files of frameworks."""
