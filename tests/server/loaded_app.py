"""Import this module to load what a server needs before it knows its data folder."""

from functools import partial

import bcrypt
from contextrender_bridge.base.paths import app_dir
from contextrender_bridge.base.settings import set_for_library
from contextrender_bridge.server.process import worker as worker
from contextrender_bridge.server.process.loading import warm_up
from contextrender_bridge.server.runtime import load_app

# A fork does not copy the threads that the library would start.
set_for_library("TOKENIZERS_PARALLELISM", "false")
# A hash of a password takes as long as many tests.
bcrypt.gensalt = partial(bcrypt.gensalt, 4)
load_app(app_dir())
warm_up()
