"""What asks a model: embedders, compactions, summaries."""
