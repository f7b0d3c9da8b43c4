"""A transcript as arrays: its structure, its reuse and its tracked tokens. Branches and caches."""
