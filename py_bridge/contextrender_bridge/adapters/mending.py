"""What a first-run check says when something is not as it must be."""


class ToMend(Exception):
    """Something is to be mended; the text says what to do."""
