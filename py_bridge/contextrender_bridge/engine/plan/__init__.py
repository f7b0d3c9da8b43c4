"""From a history and a budget to what is shown: the view, retained text, selection, excerpts."""
