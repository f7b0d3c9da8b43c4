"""What the adapters' tests share: installing a runtime, a scripted model, and what it was shown."""
