"""`contextrender audit` on what real programs write."""
