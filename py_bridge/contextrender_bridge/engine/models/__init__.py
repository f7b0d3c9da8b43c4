"""Calls of models: embeddings, and summaries of results."""
