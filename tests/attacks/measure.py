"""Open files in processes of their own, and say what came of each: outcome, processor time, memory above the start.

Reads lines of JSON from standard input, each [path, arguments of load], and answers each with a line. Every file is
opened by a fork of this process, so that the libraries are loaded once and the memory is measured afresh.
"""

import json
import os
import resource
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

SECONDS = 30  # of the processor, after which a file is given up


def memory(key):
    """Bytes that this process has in memory (VmRSS) or had at the most (VmHWM)."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(key))


def used():
    """Processor time of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def shrink(path):
    """Cut a file short again and again while it is read."""
    whole = Path(path).read_bytes()

    def work():
        while True:
            os.truncate(path, len(whole) // 2)
            time.sleep(0.0005)
            Path(path).write_bytes(whole)
            time.sleep(0.0005)

    threading.Thread(target=work, daemon=True).start()


def opened(path, arguments):
    """What comes of opening one file."""
    import lrpnumpy as lrp

    warnings.simplefilter("ignore")
    repeat = arguments.pop("shrinking", 0)
    if repeat:
        shrink(path)
    began, start = used(), memory("VmRSS")
    for _ in range(repeat or 1):
        try:
            lrp.load(path, **arguments)
            outcome, more = "model", ""
        except lrp.WeightFileError as error:
            outcome, more = "error", str(error)
        except BaseException as error:
            outcome, more = type(error).__name__, str(error)
            break
    return {"outcome": outcome, "more": more, "seconds": used() - began, "memory": memory("VmHWM") - start}


def main():
    import h5py  # noqa: F401

    import lrpnumpy  # noqa: F401
    from lrpnumpy.files import isolated, kinds  # noqa: F401
    from lrpnumpy.files.keras import version2 as keras2  # noqa: F401

    for line in sys.stdin:
        path, arguments = json.loads(line)
        ours, theirs = os.pipe()
        child = os.fork()
        if not child:
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            signal.alarm(20 * SECONDS)  # by the clock: a machine may be busy
            os.write(theirs, json.dumps(opened(path, arguments)).encode())
            os._exit(0)
        os.close(theirs)
        with os.fdopen(ours, "rb") as stream:
            answer = stream.read()
        _, status = os.waitpid(child, 0)
        crash = {"outcome": f"ended with {status}", "more": "", "seconds": SECONDS, "memory": 0}
        sys.stdout.write((answer.decode() or json.dumps(crash)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
