"""Texts and messages: tokens, values, segments, the canonical transcript."""
