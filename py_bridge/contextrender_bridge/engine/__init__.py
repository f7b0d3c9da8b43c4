"""The method as pure functions and plain values. It uses no graph, no server and no files."""
