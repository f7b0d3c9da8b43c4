"""Commands that show sessions in the terminal, such as `contextrender sessions` and `show`."""
