"""Several processes behind one port: started, replaced, and each session mostly in the same one."""
