"""A transcript as arrays: structure, reuse, what policies track, branches, the working set."""
