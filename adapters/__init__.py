"""One folder per agent runtime: what the runtime needs to use ContextRender, and its test."""
