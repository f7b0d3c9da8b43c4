"""Modules that the client, server, engine and graph share. They import none of these four."""
