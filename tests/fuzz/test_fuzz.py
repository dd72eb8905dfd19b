# SPDX-License-Identifier: GPL-2.0
"""The fuzzers: one result per target, FUZZ_SECONDS (30) seconds each.

As many run at once as there are processors (FUZZ_JOBS overrides); every test
waits for its own target.  Corpora, logs and findings are kept in build/fuzz.
"""

import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OUT = ROOT / os.environ.get("BUILD", "build") / "fuzz"
SECONDS = int(os.environ.get("FUZZ_SECONDS") or 30)
JOBS = int(os.environ.get("FUZZ_JOBS") or max(2, os.cpu_count() or 1))

TARGETS = sorted(p.stem.removeprefix("fuzz_") for p in HERE.glob("fuzz_*.c"))


class Pool:
    """Builds and runs the selected targets; knows what it started."""

    def __init__(self, targets):
        self.running = set()
        self.stopping = False
        self.executor = concurrent.futures.ThreadPoolExecutor(JOBS)
        self.results = {t: self.executor.submit(self._run, t) for t in targets}

    def _run(self, target):
        """Returns (exit status, output of make and the fuzzer)."""
        OUT.mkdir(parents=True, exist_ok=True)
        log = OUT / f"{target}.log"
        env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS")}
        with log.open("w") as out:
            with subprocess.Popen(
                    ["make", "-s", f"OUT={OUT}", f"FUZZ_SECONDS={SECONDS}", f"run-{target}"],
                    cwd=HERE, env=env, stdin=subprocess.DEVNULL, stdout=out,
                    stderr=subprocess.STDOUT, start_new_session=True) as make:
                self.running.add(make)
                if self.stopping:
                    os.killpg(make.pid, signal.SIGKILL)
                make.wait()
                self.running.discard(make)
        return make.returncode, log.read_text(errors="replace")

    def stop(self):
        """End what still runs; the sessions are our own."""
        self.stopping = True
        self.executor.shutdown(wait=False, cancel_futures=True)
        for make in list(self.running):
            if make.poll() is None:
                os.killpg(make.pid, signal.SIGKILL)
        self.executor.shutdown()


@pytest.fixture(scope="module", name="pool")
def pool_fixture(request):
    """Start all targets that this session will ask for, in its order."""
    wanted = [item.callspec.params["target"] for item in request.session.items
              if getattr(item, "function", None) is test_target]
    pool = Pool(wanted)
    yield pool
    pool.stop()


@pytest.mark.parametrize("target", TARGETS)
def test_target(target, pool):
    """The decoder keeps its promises for every input the fuzzer can think of."""
    status, output = pool.results[target].result()
    executed = re.search(r"number_of_executed_units: (\d+)", output)
    seeds = len(list((OUT / "seeds" / target).glob("*")))
    if status or not executed:
        finding = re.search(r"Test unit written to (\S+)", output)
        where = (f"again: {OUT}/fuzz_{target} {finding.group(1)}\n" if finding else "")
        pytest.fail(f"fuzz target {target}, exit status {status}\n{where}"
                    + "\n".join(output.splitlines()[-60:]), pytrace=False)
    assert seeds, "no seed corpus"
    # a fuzzer that stands still proves nothing
    assert int(executed.group(1)) > seeds + 100 * SECONDS, output[-2000:]


def test_every_decoder_has_a_target():
    """A decoder that is added to a wire header gets a fuzzer with it."""
    fuzzers = "".join((HERE / f"fuzz_{t}.c").read_text() for t in TARGETS)
    for header in ("rtrs/wire.h", "rnbd/wire.h"):
        text = (ROOT / header).read_text()
        decoders = set(re.findall(r"^static inline \w+ (\w+_decode)\(const void \*buf, size_t",
                                  text, re.M))
        decoders |= set(re.findall(r"^static inline int (\w+_imm_decode)\(", text, re.M))
        # the part of rtrs_io_hdr_decode() that reads READ headers
        decoders -= {"rtrs_read_hdr_decode"}
        assert decoders, header
        missing = sorted(d for d in decoders if f"{d}(" not in fuzzers)
        assert not missing, f"{header}: {missing}"
