"""Starts, watches and replaces several processes that serve one port."""
