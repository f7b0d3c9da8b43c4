"""Reads, sums up and replays the sessions that agents stored on this machine.

It sends nothing anywhere and writes to no file of another program.
"""
