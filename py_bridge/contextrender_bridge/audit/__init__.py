"""`contextrender audit`: what agents left on this machine, read, added up and replayed.

Nothing is sent anywhere and nothing of another program is written to.
"""
