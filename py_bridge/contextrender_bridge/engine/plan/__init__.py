"""The plan of a prompt, made from a history and a budget: its texts, its results and excerpts."""
