"""The app below its walkers."""
