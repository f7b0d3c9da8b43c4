"""The only door to jaclang 0.16.7 and jac-scale 0.2.31; docs/runtime.md lists what is replaced.

What one request sees and writes of the graph, and what walkers ask of the server they run in.
"""
