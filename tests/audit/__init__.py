"""Tests of `contextrender audit`. The tests of its readers with the agents' own files are in
adapters/wrap.
"""
