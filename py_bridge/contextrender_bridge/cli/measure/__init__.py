"""The commands that measure policies on recorded runs."""
