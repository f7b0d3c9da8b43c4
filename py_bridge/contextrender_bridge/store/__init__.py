"""A store of many owners' nodes and edges as rows, in SQLite or PostgreSQL, independent of Jac."""
