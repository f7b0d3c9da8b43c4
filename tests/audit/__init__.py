"""`contextrender audit`; its readers meet the agents' own output in adapters/wrap."""
