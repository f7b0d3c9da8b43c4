"""The shared code of the adapters' tests: runtimes, a scripted model, checks of its requests."""
