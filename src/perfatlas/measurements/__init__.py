"""Measured rows, their readers and the calibrations fitted to them."""
