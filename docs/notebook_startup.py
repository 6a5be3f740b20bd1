"""Notebooks of the site run in a fresh folder that has the examples of a checkout, each for at most a minute.

Processor time is counted, since the machine may be busy; a notebook that takes more is ended, and the build fails.
"""

import atexit
import os
import resource
import shutil
import sys
import tempfile

resource.setrlimit(resource.RLIMIT_CPU, (60, 60))

_folder = tempfile.mkdtemp()
atexit.register(shutil.rmtree, _folder, ignore_errors=True)
os.chdir(_folder)
for name in ("examples", "weights"):
    os.symlink(os.path.join(os.environ["LRPNUMPY_CHECKOUT"], name), name)

sys.path.insert(0, os.environ["LRPNUMPY_CHECKOUT"])
from docs import shown  # noqa: E402

shown.watch()
