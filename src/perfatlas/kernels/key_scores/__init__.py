"""Time of the scores by which a sparse attention chooses its keys."""
