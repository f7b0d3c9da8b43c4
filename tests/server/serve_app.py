"""Serve the test app: `serve_app.py PORT DATA`."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from contextrender_bridge.server.process.start import serve  # noqa: E402

if __name__ == "__main__":
    sys.exit(serve("127.0.0.1", int(sys.argv[1]), Path(sys.argv[2]), app=HERE / "app"))
