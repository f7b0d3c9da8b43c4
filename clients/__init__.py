"""Clients in other languages than Python."""
