"""Measures what policies show of recorded runs, what that costs, and how certain that is."""
