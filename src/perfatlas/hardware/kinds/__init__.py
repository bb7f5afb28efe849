"""Kinds of machines as hardware files describe them, one module each, found by its row `KIND`."""
