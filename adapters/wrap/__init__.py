"""`contextrender wrap` with the agents themselves and a scripted model."""
