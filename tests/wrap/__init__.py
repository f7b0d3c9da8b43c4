"""Tests of `contextrender wrap` without the agents; adapters/wrap has tests with the agents."""
