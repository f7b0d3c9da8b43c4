"""Plugins inside coding agents: they replace a compacted history, or render each model call.

A plugin uses the agent's own hooks, so the agent keeps its login and its provider's address
(docs/plugins.md). The folder `files` has the code that runs inside agents; the modules install it.
"""
