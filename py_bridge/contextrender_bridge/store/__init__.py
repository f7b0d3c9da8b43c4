"""A store of rows, nodes and edges of many owners, in SQLite or PostgreSQL. It knows no Jac."""
