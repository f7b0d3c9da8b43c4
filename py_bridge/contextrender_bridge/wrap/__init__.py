"""`contextrender wrap`: an agent run with the proxy before its provider, and no file changed."""
