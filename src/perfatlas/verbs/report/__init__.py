"""Reports of saved answers and runs."""
