"""Tests of the plugins inside real agents."""
