"""Tables of all input fields and all metrics; each is declared once."""
