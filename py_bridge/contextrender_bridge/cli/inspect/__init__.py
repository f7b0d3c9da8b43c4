"""Sessions in the terminal: `contextrender sessions`, `show`, `explain` and `graph`."""
