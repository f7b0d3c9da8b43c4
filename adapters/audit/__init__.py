"""Tests of `contextrender audit` with files that real programs write."""
