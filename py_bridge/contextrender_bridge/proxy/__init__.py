"""The proxy: model calls pass through it on their way to a provider, their histories made to fit.

`contextrender proxy` runs it on its own; `contextrender serve` has it as well.
"""
