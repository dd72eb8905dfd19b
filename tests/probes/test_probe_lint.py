# SPDX-License-Identifier: GPL-2.0
"""The set of probes: each is documented, used by an adapter, and tells kernels apart."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROBES = sorted((ROOT / "compat/probes").glob("*.c"))
NAMES = [probe.stem for probe in PROBES]
TABLES = {path.stem: dict(line.split() for line in path.read_text().splitlines())
          for path in sorted((Path(__file__).parent / "expected").glob("*.txt"))}


def used():
    """The HAVE_ names that compat/include looks at."""
    names = set()
    for path in (ROOT / "compat/include").rglob("*.h"):
        names |= set(re.findall(r"\bHAVE_(\w+)", path.read_text()))
    return {name.lower() for name in names}


@pytest.mark.parametrize("probe", PROBES, ids=NAMES)
def test_probe_is_documented(probe):
    first, second = probe.read_text().splitlines()[:2]
    assert re.fullmatch(r"/\* (until )?\d+\.\d+( and \d+\.\d+ only)?, "
                        r"([0-9a-f]{12}|commit not known): .* \*/",
                        first), first
    assert re.fullmatch(r"/\* no mentions: .* \*/", second), second
    assert re.fullmatch(r"[a-z0-9_]+", probe.stem)


def test_every_probe_is_used_and_every_use_has_a_probe():
    assert used() == set(NAMES)


@pytest.mark.parametrize("kernel", TABLES)
def test_expected_table_is_complete(kernel):
    assert sorted(TABLES[kernel]) == NAMES
    assert set(TABLES[kernel].values()) <= {"yes", "no"}


def version(text):
    """6.12 as a pair of numbers."""
    return tuple(int(part) for part in text.split("."))


@pytest.mark.parametrize("name", NAMES)
def test_probe_tells_kernels_apart(name):
    """...except one for an API that came and went between two kernels of the matrix."""
    answers = {table.get(name) for table in TABLES.values()}
    first = (ROOT / f"compat/probes/{name}.c").read_text().splitlines()[0]
    only = re.match(r"/\* (\d+\.\d+) and (\d+\.\d+) only, ", first)
    if only:
        begin, end = map(version, only.groups())
        measured = sorted(map(version, TABLES))
        assert measured[0] < begin <= end < measured[-1]
        assert not [kernel for kernel in measured if begin <= kernel <= end]
        assert answers == {"no"}
    else:
        assert answers == {"yes", "no"}, "the answer is the same on every kernel of the matrix"
