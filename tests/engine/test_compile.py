"""Kernels compiled in the background, as users have it, with an empty cache.

What ends, forks or must not have Numba runs in a new process; the rest in this one, which has loaded Numba already. The
other tests use the kernels of `lrpnumpy compile` (`conftest.py`). Here NumPy runs kernels on whole arrays until they
are ready, in several threads at once, large calls wait when that has taken long, and a program may end or fork in the
middle of it.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import networks as nets
import numpy as np
import pytest

import lrpnumpy as lrp
from lrpnumpy.kernels import compile as kernels
from lrpnumpy.kernels import kept, product
from lrpnumpy.kernels.arguments import R1, W1
from lrpnumpy.lazy import cached_property

ROOT = Path(__file__).parents[2]
METHOD = {"method": "gradient", "target": 0}  # needs few kernels


def start(function, cache, *arguments, mode="background"):
    """Run a function of this file in a new process, by default in the mode that users have."""
    ours = ("LRPNUMPY_COMPILE", "NUMBA_DISABLE_JIT", "NUMBA_CACHE_DIR")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    code = f"import test_compile, sys; test_compile.{function.__name__}(*sys.argv[1:])"
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=environment
        | {
            "LRPNUMPY_COMPILE": mode,
            "NUMBA_CACHE_DIR": str(cache),
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests" / "engine"), str(ROOT / "tests" / "support")]),
        },
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process, complaint=""):
    """Wait for a process, which must end well and complain of nothing, or in one line that has this in it."""
    try:
        _, complaints = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 0 and complaint in complaints, (process.returncode, complaints)
    assert len(complaints.splitlines()) == bool(complaint), complaints


@pytest.fixture
def as_users_have_it(tmp_path, monkeypatch):
    """This process compiles in the background, and keeps kernels in an empty folder."""
    for dtype in ("float32", "float64"):
        product.publish(np.dtype(dtype))  # what every kernel may call: from its usual place
    monkeypatch.setattr(kernels, "mode", "background")
    monkeypatch.setattr(kernels, "START", 0.0)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))


def ready():
    """How many kernels are compiled."""
    return sum(bool(one.compiled) for one in kernels.KERNELS)


# ------------------------------------------------------------------------------------------------ the real kernels


def network():
    rng = np.random.default_rng(0)
    model = lrp.Model([nets.rnn(rng, 3, 4), nets.dense(rng, 4, 2)])  # its kernels are compiled soonest
    few = [rng.normal(size=(T, 3)) for T in (4, 2, 3)]
    many = [rng.normal(size=(40, 3)) for _ in range(800)]  # too much for plain functions: 96,000 inputs
    return model, few, many


def joined(found):
    return np.concatenate([explanation.relevance for explanation in found])


# What each thread does again and again: one sequence, several on one thread, several on two.
SMALL = {
    "explain": lambda model, few: lrp.explain(model, few[0], **METHOD).relevance,
    "explain_all": lambda model, few: joined(lrp.explain_all(model, few, threads=1, **METHOD)),
    "two threads": lambda model, few: joined(lrp.explain_all(model, few, threads=2, **METHOD)),
}


def explain_in_threads(path):
    """Small calls from the first moment until a while after all kernels are ready, and one large call beside them."""
    assert kernels.mode == "background" and ready() == 0
    kernels.START, kernels.PATIENCE = 0.0, 0.0  # the second large call waits
    model, few, many = network()
    found, notes, wrong = {name: [] for name in SMALL}, {name: [] for name in SMALL}, []
    together = threading.Barrier(len(SMALL))
    large_done = threading.Event()

    def small(name):
        left = 3  # rounds with every kernel compiled
        while left:
            left -= large_done.is_set()
            before = ready()
            if not notes[name]:
                together.wait()  # before the first call, which starts the compiler
            found[name].append(SMALL[name](model, few))
            notes[name].append((before, ready()))
            time.sleep(0.1)  # the compiler needs the interpreter, too

    def large():
        lrp.explain_all(model, many, **METHOD)  # by NumPy: its time uses up the patience
        found["large"] = joined(lrp.explain_all(model, many, **METHOD))

    def run(function, *arguments):
        try:
            function(*arguments)
        except BaseException as error:
            wrong.append(error)
        finally:
            if function is large:
                large_done.set()

    threads = [threading.Thread(target=run, args=(small, name)) for name in SMALL]
    for thread in threads:
        thread.start()
    while not all(notes.values()) and not wrong:
        time.sleep(0.001)
    threads.append(threading.Thread(target=run, args=(large,)))
    threads[-1].start()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]
    np.savez(path, **found, **{f"ready {name}": note for name, note in notes.items()})


def end_while_compiling(path):
    """Explain something and end: threads that go on explaining are stopped by Python, the compiler is waited for."""
    kernels.START = 0.0
    model, few, _ = network()

    def for_ever():
        while True:
            lrp.explain(model, few[0], **METHOD)
            time.sleep(0.05)

    for _ in range(2):
        threading.Thread(target=for_ever, daemon=True).start()
    np.save(path, lrp.explain(model, few[0], **METHOD).relevance)


@pytest.mark.slow
def test_explanations_are_right_while_kernels_are_compiled(tmp_path):
    ended(start(explain_in_threads, tmp_path, tmp_path / "found.npz"))
    model, few, many = network()
    wanted = {name: explain(model, few) for name, explain in SMALL.items()} | {
        "large": joined(lrp.explain_all(model, many, **METHOD))
    }
    with np.load(tmp_path / "found.npz") as found:
        for name, want in wanted.items():
            # NumPy and compiled functions round differently: in 20 such networks by at most 2e-15 of the largest
            # value, in float32 by 1e-6.
            assert abs(np.atleast_2d(found[name]) - want).max() <= 1e-12 * abs(want).max(), name
        for name in SMALL:
            before, after = found[f"ready {name}"].T  # kernels compiled before and after each round
            assert before[0] == 0 and before[-1] == after.max() > 1  # at first none, at last all,
            assert ((before > 0) & (before < after.max())).any()  # in between some


def test_a_program_may_end_while_kernels_are_compiled(tmp_path):
    ended(start(end_while_compiling, tmp_path, tmp_path / "brief.npy"))
    model, few, _ = network()
    wanted = lrp.explain(model, few[0], **METHOD).relevance
    assert abs(np.load(tmp_path / "brief.npy") - wanted).max() <= 1e-12 * abs(wanted).max()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_while_a_thread_computes_what_a_record_keeps():
    """Python 3.11 holds a lock meanwhile, which in the child would never open."""
    inside, go_on = threading.Event(), threading.Event()

    class Record:
        @cached_property
        def kept(self):
            inside.set()
            go_on.wait(60)
            return 1

    thread = threading.Thread(target=lambda: Record().kept)
    thread.start()
    inside.wait(60)
    if (child := os.fork()) == 0:
        signal.alarm(120)  # it would hang for ever
        go_on.set()
        os._exit(Record().kept - 1)
    go_on.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def end_before_the_compiler_begins():
    kernels.START = 3600.0
    model, few, _ = network()
    lrp.explain(model, few[0], **METHOD)
    assert kernels._worker.is_alive() and "numba" not in sys.modules


def test_a_short_program_waits_for_no_compiler(tmp_path):
    ended(start(end_before_the_compiler_begins, tmp_path))
    assert not list(tmp_path.rglob("*.nb?"))


# -------------------------------------------------------------------------------------------------- small kernels


def double(x: R1, out: W1) -> None:
    for k in range(x.shape[0]):
        out[k] = 2 * x[k]


def double_by_numpy(x, out):
    out[:] = 2 * x


def hopeless(x: R1, out: W1) -> None:
    out[0] = x.no_array_has_this


LARGE = np.arange(float(kernels.SMALL))


def check(kernel):
    """A small call and a large one."""
    for x in (LARGE[:5], LARGE):
        out = np.empty_like(x)
        kernel(x, out)
        np.testing.assert_array_equal(out, 2 * x)


def wait_until(condition):
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < 240
        time.sleep(0.005)


def fork_while_compiling():
    one = kernels.Kernel(double, double_by_numpy)
    one(LARGE[:5], np.empty(5))

    def compiling():
        if kernels._lock.acquire(blocking=False):
            kernels._lock.release()
            return False
        return True

    wait_until(compiling)
    child = os.fork()
    if child == 0:
        signal.alarm(240)  # it would hang for ever
        other = kernels.Kernel(double, double_by_numpy)
        check(one)
        other(LARGE[:5], np.empty(5))
        wait_until(lambda: other.compiled)  # by a thread of the child's own
        os._exit(0)
    check(one)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
def test_a_process_may_fork_while_a_kernel_is_compiled(tmp_path):
    ended(start(fork_while_compiling, tmp_path))


def compile_and_check():
    one = kernels.Kernel(double, double_by_numpy)
    one(LARGE[:5], np.empty(5))
    wait_until(lambda: one.compiled)
    check(one)


def test_two_processes_fill_one_empty_cache(tmp_path):
    for process in [start(compile_and_check, tmp_path) for _ in range(2)]:
        ended(process)


def test_kernels_are_compiled_where_they_cannot_be_kept(tmp_path, as_users_have_it, monkeypatch, caplog):
    (tmp_path / "kernels").write_text("a file, where a folder should be")
    for name in ("XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "kernels"))
    kept._hint.cache_clear()
    compile_and_check()
    kernels.Kernel(double, double_by_numpy).compile("float32")
    (hint,) = caplog.messages  # it comes once
    assert "Set NUMBA_CACHE_DIR" in hint


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders")
def test_kernels_are_kept_in_the_users_folder_where_the_packages_cannot_be_written(
    tmp_path, as_users_have_it, monkeypatch, caplog
):
    (tmp_path / "kernels").write_text("a file, where a folder should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    compile_and_check()
    (folder,) = (tmp_path / "cache").iterdir()
    assert {path.suffix for path in folder.iterdir()} == {".nbc"}
    assert folder.stat().st_mode & 0o022 == 0
    assert not caplog.messages


@pytest.mark.skipif(os.name != "posix", reason="Windows has other rights")
def test_nothing_is_read_from_a_folder_that_others_can_write_to(tmp_path, monkeypatch):
    mine = tmp_path / "mine"
    kept.make(mine)
    assert kept.is_trusted(mine)
    for rights in (0o777, 0o775, 0o1777):
        mine.chmod(rights)
        assert not kept.is_trusted(mine)
        with pytest.raises(PermissionError):
            kept.make(mine)
    mine.chmod(0o755)
    link = tmp_path / "link"
    link.symlink_to(mine)
    assert not kept.is_trusted(link) and not kept.is_trusted(tmp_path / "nowhere")
    someone = os.stat(mine).st_uid + 4711
    monkeypatch.setattr(kept.os, "lstat", lambda path: os.stat_result((0o40755, 0, 0, 2, someone, 0, 0, 0, 0, 0)))
    assert not kept.is_trusted(mine)


def test_damaged_files_are_compiled_again(as_users_have_it, caplog):
    one = kernels.Kernel(double, double_by_numpy)
    one.compile("float64")
    folder = kept.folders()[0]  # the one of this test; the user's folder may have kernels, too
    for damage in (lambda data: b"", lambda data: data[: len(data) // 2], lambda data: b"\x80" + data[1:]):
        for path in folder.iterdir():
            path.write_bytes(damage(path.read_bytes()))
            check(kernels.Kernel(double, double_by_numpy))
            again = kernels.Kernel(double, double_by_numpy)
            again.compile("float64")
            check(again)
    assert not caplog.messages


def test_a_kernel_that_cannot_be_compiled_holds_up_no_other(as_users_have_it, monkeypatch):
    bad, good = kernels.Kernel(hopeless, double_by_numpy), kernels.Kernel(double, double_by_numpy)
    times = []
    compile_one = kernels.Kernel._compile
    monkeypatch.setattr(kernels.Kernel, "_compile", lambda one, dtype: (times.append(one), compile_one(one, dtype))[1])
    monkeypatch.setattr(kernels, "_seconds", 0.0)
    with suppress(AttributeError):  # of the plain function
        bad(LARGE[:5], np.empty(5))
    threads = [threading.Thread(target=check, args=(good,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: good.compiled)
    assert times.count(good) == 1
    monkeypatch.setattr(kernels, "_seconds", 2 * kernels.PATIENCE)
    with pytest.raises(Exception, match="no_array_has_this"):
        bad(LARGE, np.empty(5))
    assert times.count(bad) == 2  # in the background, and where it is needed


@pytest.mark.slow
def test_threads_that_explain_while_kernels_are_compiled_and_a_process_forks_get_what_is_right():
    """Five seconds of `python -m tests.attacks.threads`."""
    command = [sys.executable, "-m", "tests.attacks.threads", "--seconds", "5", "--threads", "8"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr


def bits_of_everything(path):
    """Relevance of several batches by every way to ask for it, compiled from the first call on."""
    rng = np.random.default_rng(0)
    model = lrp.Model([nets.two_way(rng, 3, 20), nets.dense(rng, 20 * 2, 2)]).astype("float32")
    few = [rng.normal(size=(T, 3)).astype("float32") for T in rng.integers(1, 30, 24)]
    for method in ("lrp-all", "lrp-half", "gradient", "deeplift"):
        want = joined(lrp.explain_all(model, few, method, 0, threads=1))
        for threads in (1, 2, 8):
            assert joined(lrp.explain_all(model, few, method, 0, threads=threads)).tobytes() == want.tobytes()
        one_by_one = np.concatenate([lrp.explain(model, x, method, 0).relevance for x in few])
        if method.startswith(
            "lrp"
        ):  # what BLAS rounds in the scores, which LRP sends back, depends on how many they are
            assert abs(one_by_one - want).max() <= 1e-6 * abs(want).max()
        else:
            assert one_by_one.tobytes() == want.tobytes()
        with Path(path).open("ab") as file:
            file.write(want.tobytes() + one_by_one.tobytes())


@pytest.mark.compiled
def test_who_waits_for_the_compiler_gets_the_same_bits_always(tmp_path):
    there = start(bits_of_everything, os.environ.get("NUMBA_CACHE_DIR", ""), tmp_path / "there", mode="wait")
    bits_of_everything(tmp_path / "here")
    ended(there)
    assert (tmp_path / "here").read_bytes() == (tmp_path / "there").read_bytes()
