"""One model call: its request, its rendering, why it is so."""
