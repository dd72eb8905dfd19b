# SPDX-License-Identifier: GPL-2.0
"""What all tests share: the order they run in, their machines, and the verdict.

Tests that need no machine run first, while threads make the machines' images;
tests marked `late` judge what was done beside the machines' tests, and run last.
A test that uses `kernel`, `suite`, `modules`, `pair`, `single` or `mainline` runs
once for every kernel.  Environment: T=<part of a test's name>, KERNELS="6.1 6.12",
FULL=1.  README.md says more.
"""

import os
import shutil

import pytest
from _pytest import runner

import peer
from vmlab import forms, host, modules, suites
from vmlab import matrix as vmlab_matrix
from vmlab import pair as vmlab_pair
from vmlab import session as vmlab_session

LOGS = host.BUILD / "test-logs"
ORDER = ("unit", "probes", "lint", "fuzz", "packaging", "compilers", "vm", "interop")

_machines = vmlab_session.Session()
_matrix = vmlab_matrix.Matrix()
_outcomes = {}
_may_run_again = True


# ---- which tests, in which order

def pytest_configure():
    """Refuse kernels we do not know before anything is collected."""
    try:
        forms.kernels()
    except host.SetupError as error:
        raise pytest.UsageError(f"KERNELS: {error}") from None


def pytest_generate_tests(metafunc):
    """Run a test that uses machines once for every kernel that it may run on."""
    if "suite" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("kernels")
        series = forms.kernels(*(marker.args if marker else ()))
        if metafunc.definition.get_closest_marker("newest") and not forms.full():
            series = series[-1:]
        if not series:
            series = [pytest.param(None, marks=pytest.mark.skip(
                reason="not for the kernels in KERNELS"), id="no kernel")]
        metafunc.parametrize("kernel", series, indirect=True, scope="session")


def _suite(item):
    """The suite whose machines a test uses, or None."""
    kernel = item.callspec.params.get("kernel") if hasattr(item, "callspec") else None
    known = [suite for suite in suites.ALL if suite.series == kernel]
    return known[0] if known and "suite" in item.fixturenames else None


def _marked(item, name, default):
    """The argument of a test's marker."""
    marker = item.get_closest_marker(name)
    return marker.args[0] if marker else default


def _client_suite(item):
    """The suite of the client if that is another one, or None."""
    series = _marked(item, "client_kernel", None)
    return suites.find(series) if series else None


def _row(item):
    """What the line of a test is called in the table that `make matrix` prints."""
    server, client = _suite(item), _client_suite(item)
    if server:
        return f"{client.series} to {server.series}" if client else server.series
    value = item.callspec.params[item.get_closest_marker("matrix").kwargs["row"]]
    return next((suite.series for suite in suites.ALL if suite.name == value), value)


def _properties(item):
    """What a pair is made with."""
    return {"links": _marked(item, "links", 1), "append": _marked(item, "append", ""),
            "client_suite": _client_suite(item) or _suite(item)}


def _rank(item):
    folder = item.path.relative_to(host.VM_DIR.parent).parts[0]
    place = ORDER.index(folder) if folder in ORDER else len(ORDER)
    suite = _suite(item)
    if suite:
        kind = ()
        if "single" not in item.fixturenames:
            links, append, client = _properties(item).values()
            kind = (suites.ALL.index(client), links, append)
        return (1 + suites.ALL.index(suite), kind, place)
    return (1 + len(suites.ALL) if item.get_closest_marker("late") else 0, (), place)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Choose by T, mark long forms, and order."""
    wanted = os.environ.get("T", "").lower()
    config.hook.pytest_deselected(
        items=[item for item in items if wanted not in item.nodeid.lower()])
    items[:] = sorted((item for item in items if wanted in item.nodeid.lower()), key=_rank)
    for item in items:
        if item.get_closest_marker("full") and not forms.full():
            item.add_marker(pytest.mark.skip(reason="a long form: make check-full runs it"))


def pytest_collection_finish(session):
    """Start to make what the chosen tests will need."""
    makers = {"suite": None, "modules": modules.build, "mainline": peer.build}
    for item in session.items if not session.config.option.collectonly else ():
        if item.get_closest_marker("skip"):
            continue
        needed = sorted(set(makers) & set(item.fixturenames))
        for suite in filter(None, (_suite(item), _client_suite(item))) if needed else ():
            _machines.prepare("images", suite, vmlab_session.images)
            for name in filter(makers.get, needed):
                _machines.prepare(name, suite, makers[name])


# ---- what tests use

@pytest.fixture(name="kernel", scope="session")
def kernel_fixture(request):
    """The kernel series a test runs on, such as "6.12"."""
    return request.param


@pytest.fixture(name="suite", scope="session")
def suite_fixture(kernel):
    """The Debian suite of the kernel."""
    return suites.find(kernel)


def _logs(item):
    """The directory for what the machines of a test log."""
    return LOGS / item.name.replace("/", "_")


def _machines_for(request, suite, kind, **properties):
    """Machines in the state after boot, whose logs are judged from now on."""
    logs = _logs(request.node)
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    machines = _machines.machines_for(suite, kind, **properties)
    machines.begin_test(logs)
    return machines


@pytest.fixture(name="pair")
def pair_fixture(request, suite):
    """A booted server and client in the state after boot; see vmlab.pair.Pair.

    What the kernels log during the test decides about it, too.
    """
    return _machines_for(request, suite, vmlab_pair.Pair, **_properties(request.node))


@pytest.fixture(name="single")
def single_fixture(request, suite):
    """One booted machine alone; see vmlab.pair.Single."""
    return _machines_for(request, suite, vmlab_pair.Single)


@pytest.fixture(name="modules")
def modules_fixture(request, suite):
    """Our modules, built for the kernel and installed in all machines: `modprobe` finds them."""
    machines = request.getfixturevalue("single" if "single" in request.fixturenames else "pair")
    machines.on_each(lambda guest: guest.install_modules(_machines.get("modules", guest.suite)))
    return _machines.get("modules", suite)


@pytest.fixture(name="mainline")
def mainline_fixture(pair, suite):
    """Mainline's modules in a directory of their own in both; see interop/peer.py."""
    for guest in pair.guests:
        _machines.get("mainline", guest.suite).install(guest)
    return _machines.get("mainline", suite)


# ---- verdict and report

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """Run a test again, once in a run, if QEMU made one of its machines impossible."""
    global _may_run_again
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runner.runtestprotocol(item, nextitem=nextitem, log=False)
    if _may_run_again and any(getattr(report, "broken_emulation", False) for report in reports):
        _may_run_again = False
        host.progress(f"AGAIN   {item.nodeid}: the emulated processor had flags that there are not")
        # What it logged stays beside what the next run does.
        logs = _logs(item)
        kept = logs.with_name(f"{logs.name}-before")
        shutil.rmtree(kept, ignore_errors=True)
        logs.rename(kept)
        item._initrequest()
        reports = runner.runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """After a test with machines: clean them up, and judge what their kernels logged."""
    outcome = yield
    if item.get_closest_marker("matrix") and (call.when == "call" or call.excinfo):
        outcome.get_result().cell = _row(item), _marked(item, "matrix", "")
    used = getattr(item, "funcargs", {})
    machines = used.get("pair") or used.get("single")
    if call.when != "call" or not machines:
        return
    report = outcome.get_result()
    left = _machines.tidy_up()
    trouble = machines.end_test() + (left if report.passed else [])
    report.broken_emulation = any(guest.broken_emulation for guest in machines.guests)
    if trouble:
        text = "\n".join([f"kernel logs and leftovers (all of it in {LOGS}):", *trouble])
        report.longrepr = f"{report.longrepr}\n{text}" if report.failed else text
        report.outcome = "failed"


def pytest_runtest_logstart(nodeid):
    """Say what begins, so that a long test is seen to run."""
    if any(f"[{suite.series}" in nodeid for suite in suites.ALL):
        host.progress(f"BEGIN   {nodeid}")


def pytest_runtest_logreport(report):
    """Count, and print a line for every test that has ended."""
    if report.when != "call" and report.passed:
        return
    if hasattr(report, "cell"):
        _matrix.add(*report.cell, report.outcome)
    before = _outcomes.get(report.nodeid)
    _outcomes[report.nodeid] = "failed" if before == "failed" else report.outcome
    why = f": {report.longrepr[2]}" if isinstance(report.longrepr, tuple) else ""
    host.progress(f"{report.outcome.upper():7} {report.nodeid} ({report.duration:.1f} s){why}")


def pytest_collectreport(report):
    """A file that cannot be collected is a failure."""
    if report.failed:
        _outcomes[report.nodeid] = "failed"


def pytest_report_teststatus(report):
    """Keep pytest's own dots out of our lines."""
    if report.when == "call" or not report.passed:
        error = report.failed and report.when != "call"
        return "error" if error else report.outcome, "", ""
    return None


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    """Power off; a run in which nothing passed is a failure."""
    _machines.stop()
    if exitstatus == pytest.ExitCode.OK and "passed" not in _outcomes.values():
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    """The table of kernels, if that was asked for, and the last line of all."""
    if config.getoption("markexpr") == "matrix":
        print(_matrix.text())
    found = list(_outcomes.values())
    print(", ".join(f"{found.count(kind)} {kind}" for kind in ("passed", "failed", "skipped")),
          flush=True)
