"""Presentation of answers: text, charts, pages, traces; computes no results."""
