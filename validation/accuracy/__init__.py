"""Accuracy of number formats against published pairs, and the fit of its model."""
