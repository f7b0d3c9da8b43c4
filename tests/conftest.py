"""Puts the repository root on the path, so that tests import the sources beside them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
