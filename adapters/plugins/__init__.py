"""The plugins inside real agents."""
