"""Notebooks of the site run in a fresh folder that has the examples of a checkout, as tests/test_docs.py has it."""

import atexit
import os
import shutil
import tempfile

_folder = tempfile.mkdtemp()
atexit.register(shutil.rmtree, _folder, ignore_errors=True)
os.chdir(_folder)
os.symlink(os.path.join(os.environ["LRPNUMPY_CHECKOUT"], "examples"), "examples")
