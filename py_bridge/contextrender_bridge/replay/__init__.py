"""Replaying recorded runs. Importing this package makes the engine importable."""

import sys

from contextrender_bridge.paths import app_dir

if str(app_dir()) not in sys.path:
    sys.path.insert(0, str(app_dir()))
