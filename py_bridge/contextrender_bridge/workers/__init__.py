"""Several processes behind one port: started, watched and replaced."""
