"""`contextrender wrap`: runs an agent with the proxy before its provider, and changes no file."""
