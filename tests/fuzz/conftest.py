# SPDX-License-Identifier: GPL-2.0
"""Runs the fuzzers beside everything else, with the processor time that nothing else wants.

They start when the tests do, as many at once as there are processors (FUZZ_JOBS
overrides), and each test waits for its own target.  Corpora, logs and findings
are kept in build/fuzz.
"""

import concurrent.futures
import os
import pathlib
import signal
import subprocess
import threading

import pytest

from vmlab import proc

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE.parents[1] / os.environ.get("BUILD", "build") / "fuzz"
JOBS = int(os.environ.get("FUZZ_JOBS") or max(2, os.cpu_count() or 1))

_pools = []


class Pool:
    """Builds and runs the selected targets; knows what it started."""

    out = OUT
    seconds = int(os.environ.get("FUZZ_SECONDS") or 30)

    def __init__(self, targets):
        self.running = set()
        self.stopping = False
        self.idle = True
        self.lock = threading.Lock()
        self.executor = concurrent.futures.ThreadPoolExecutor(JOBS)
        self.results = {t: self.executor.submit(self._run, t) for t in targets}

    def _run(self, target):
        """Returns (exit status, output of make and the fuzzer)."""
        self.out.mkdir(parents=True, exist_ok=True)
        log = self.out / f"{target}.log"
        env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS")}
        with log.open("w") as out:
            with subprocess.Popen(
                    ["make", "-s", f"OUT={self.out}", f"FUZZ_SECONDS={self.seconds}",
                     f"run-{target}"],
                    cwd=HERE, env=env, stdin=subprocess.DEVNULL, stdout=out,
                    stderr=subprocess.STDOUT, start_new_session=True) as make:
                with self.lock:
                    self.running.add(make)
                    proc.set_idle(make.pid, self.idle)
                if self.stopping:
                    os.killpg(make.pid, signal.SIGKILL)
                make.wait()
                self.running.discard(make)
        return make.returncode, log.read_text(errors="replace")

    def hurry(self):
        """Somebody waits: take as much processor time as anybody else."""
        with self.lock:
            if self.idle:
                self.idle = False
                for make in self.running:
                    proc.set_idle(make.pid, False)

    def stop(self):
        """End what still runs; the sessions are our own."""
        self.stopping = True
        self.executor.shutdown(wait=False, cancel_futures=True)
        for make in list(self.running):
            if make.poll() is None:
                os.killpg(make.pid, signal.SIGKILL)
        self.executor.shutdown()


def pytest_collection_finish(session):
    """Start all targets that this run asks for, in its order."""
    wanted = [item.callspec.params["target"] for item in session.items
              if getattr(item, "originalname", "") == "test_target"]
    if wanted and not session.config.option.collectonly:
        _pools.append(Pool(wanted))


def pytest_sessionfinish():
    """A run that ends early does not wait for them."""
    for pool in _pools:
        pool.stop()


@pytest.fixture(name="pool")
def pool_fixture():
    """The targets of this run."""
    return _pools[0]
