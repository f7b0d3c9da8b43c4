"""The method as pure functions and plain values: no graph, no server, no files."""
