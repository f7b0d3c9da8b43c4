"""The only door to the storage of jaclang 0.16.7 and jac-scale 0.2.31.

Everything here is below the walkers: ids and owners of nodes, what one request sees and writes,
locks, and the parts of the runtime that are replaced, each with its reason beside it.
"""
