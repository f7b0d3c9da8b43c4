"""`contextrender wrap` without the agents themselves: those are in adapters/wrap."""
