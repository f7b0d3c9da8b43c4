"""Plugins: what installing them changes, and what their parts do."""
