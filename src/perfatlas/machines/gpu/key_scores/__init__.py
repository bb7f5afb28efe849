"""Time of the index scores of sparse attention."""
