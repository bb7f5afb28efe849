"""The verbs, a folder each: its question, its answer, its remarks, its text and page."""
