"""Time of recurrent mixers: scans and short convolutions."""
