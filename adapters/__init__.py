"""One folder an agent runtime: what it takes to use it with ContextRender, and its test."""
