# SPDX-License-Identifier: GPL-2.0
"""The fuzzers: one result per target, FUZZ_SECONDS (30) seconds each; see conftest.py."""

import pathlib
import re

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TARGETS = sorted(p.stem.removeprefix("fuzz_") for p in HERE.glob("fuzz_*.c"))


@pytest.mark.late
@pytest.mark.parametrize("target", TARGETS)
def test_target(target, pool):
    """The decoder keeps its promises for every input the fuzzer can think of."""
    pool.hurry()
    status, output = pool.results[target].result()
    executed = re.search(r"number_of_executed_units: (\d+)", output)
    seeds = len(list((pool.out / "seeds" / target).glob("*")))
    if status or not executed:
        finding = re.search(r"Test unit written to (\S+)", output)
        where = (f"again: {pool.out}/fuzz_{target} {finding.group(1)}\n" if finding else "")
        pytest.fail(f"fuzz target {target}, exit status {status}\n{where}"
                    + "\n".join(output.splitlines()[-60:]), pytrace=False)
    assert seeds, "no seed corpus"
    # a fuzzer that stands still proves nothing
    assert int(executed.group(1)) > seeds + 100 * pool.seconds, output[-2000:]


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
