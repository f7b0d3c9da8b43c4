"""Past model calls, recomputed from what is stored."""
