"""Tests of `contextrender wrap` with the real agents and a scripted model."""
