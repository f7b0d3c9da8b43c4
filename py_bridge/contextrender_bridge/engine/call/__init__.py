"""One model call: its settings, its rendering with the reasons for it, and its record."""
