"""Measures what policies show of recorded runs, its cost, and the certainty of these figures."""
