"""What asks a model: embedders and summaries of results."""
