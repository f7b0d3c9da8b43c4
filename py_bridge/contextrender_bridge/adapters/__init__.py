"""Adapters that run inside an agent runtime's process, a module each.

A module imports its runtime, which this package does not install.
"""
