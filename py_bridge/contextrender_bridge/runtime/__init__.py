"""The adapter to jaclang 0.16.7 and jac-scale 0.2.31; README.md lists what it replaces.

It has the graph that one request reads and writes, and the functions that walkers use of the server
that runs them.
"""
