"""The system's Chromium: found, or installed from the system's packages where that is allowed (make browser)."""

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")


def find():
    """Path of a browser, or None; LRPNUMPY_CHROMIUM names one in another place."""
    return os.environ.get("LRPNUMPY_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


def install():
    """Install Chromium with apt-get, where there is one and we are root; else say what is to be done."""
    if find() is None and shutil.which("apt-get") and os.geteuid() == 0:
        quiet = {"env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, "stdout": sys.stderr}
        subprocess.run(["apt-get", "update", "-qq"], check=False, **quiet)
        subprocess.run(["apt-get", "install", "-qqy", "--no-install-recommends", "chromium"], check=False, **quiet)
    if find() is None:
        sys.stderr.write("There is no Chromium; install one, or say LRPNUMPY_CHROMIUM=/path/to/chromium.\n")


if __name__ == "__main__":
    install()
