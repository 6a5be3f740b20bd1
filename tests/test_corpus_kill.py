"""A run that is killed at any point, or runs out of disk, ends as if nothing had happened.

The test starts this file as a program of one thread. It forks children that each resume a run, and kills them: at a
random line of our code in the thread that reads and writes, or at a random time.
"""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

KILLS, RECORDS, CHUNK = 20, 36, 3


def test_killed_twenty_times(tmp_path):
    environment = os.environ | {"LRPNUMPY_COMPILE": "never", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, __file__, tmp_path], env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{KILLS} kills" in done.stdout


# -- the program -------------------------------------------------------------------------------------------------


def forked(work):
    """The id of a child that does some work and ends: with 0 if it is done, 1 after an error that it should raise."""
    child = os.fork()
    if child:
        return child
    status = 3
    try:
        status = work() or 0
    finally:
        os._exit(status)


def ended(child):
    """How a child ended: its exit code, or minus the signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(folder):
    import numpy as np
    from test_corpus import contents, rejected, sentences

    import lrpnumpy as lrp
    from lrpnumpy import corpus

    rng = np.random.default_rng(7)
    import networks as nets

    words = ("the", "film", "is", "not", "good", "naïve", "<unk>")
    model = lrp.Model(
        [nets.lstm(rng, 3, 2), nets.dense(rng, 2, 2)], lrp.Embedding(rng.normal(size=(7, 3)), words, "<unk>")
    )
    texts = sentences(RECORDS)
    texts[10] = texts[30] = ""
    source, out = folder / "a.txt", folder / "out.h5"
    source.write_text("\n".join(texts))
    os.fsync = lambda handle: None  # what is killed is the process, not the machine
    ours, events = os.path.dirname(corpus.__file__), 0

    def run(kill_at=0):
        """A run in this process; with `kill_at` it is killed at the so-many-th line of the package that is reached."""

        def trace(frame, event, argument):
            nonlocal events
            if not frame.f_code.co_filename.startswith(ours):
                return None
            events += 1
            if events == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return trace

        nonlocal events
        events = 0
        sys.settrace(trace if kill_at else None)
        lrp.explain_corpus(model, source, out, chunk=CHUNK, threads=2, resume=True)
        sys.settrace(None)

    def fresh():
        """What is there is as it should be; remove it."""
        assert contents(out) == whole and rejected(out) == listed
        assert sorted(os.listdir(folder)) == ["a.txt", "out.h5", "out.h5.rejected.jsonl"], os.listdir(folder)
        out.unlink()

    run(-1)
    lines = events
    whole, listed = contents(out), rejected(out)
    out.unlink()
    start = time.perf_counter()
    run()
    seconds = time.perf_counter() - start
    assert len(listed) == 2
    fresh()

    kills = finished = 0
    while kills < KILLS:
        if kills % 2:
            child = forked(lambda: run())
            time.sleep(seconds * rng.uniform(0, 0.5))
            os.kill(child, signal.SIGKILL)
        else:
            at = int(rng.integers(1, lines // 2))
            child = forked(lambda at=at: run(at))
        how = ended(child)
        assert how in (0, -signal.SIGKILL), how
        kills += how != 0
        if how == 0:
            finished += 1
            fresh()
    for at in range(lines - 60, lines, 6):  # while the output takes its name and the parts are removed
        assert ended(forked(lambda at=at: run(at))) in (0, -signal.SIGKILL)
        run()
        fresh()

    def limited(size):
        """No file may grow beyond this: as when the disk is full, for HDF5 too."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        try:
            run()
        except lrp.LrpError as error:
            return 1 if "cannot be written" in str(error) else 4

    for size in (100, 2000, 9000):
        assert ended(forked(lambda size=size: limited(size))) == 1, size
    run()
    fresh()
    print(f"{lines} lines, {seconds:.2f} s a run; {kills} kills, {finished} finished between them")  # noqa: T201


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(__file__))
    main(Path(sys.argv[1]))
else:
    if not hasattr(os, "fork"):
        pytest.skip("needs fork", allow_module_level=True)
