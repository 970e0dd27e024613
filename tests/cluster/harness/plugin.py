"""plugin - hooks and fixtures of tests with nodes, and the nodes' logs in the report of a test that failed.

A conftest.py takes all of it by `from harness.plugin import *`.
"""

import contextlib
import itertools
import os
import time

import pytest

from . import disk
from .cluster import Cluster, running
from .waiting import halts

LOG_CHARACTERS = 6000
ATTEMPTS = 4
HALT_S = 0.1  # a halt as long may cost an answer, or a decider its place


def pytest_addoption(parser):
    parser.addoption("--part", metavar="I/N", help="only the tests of every N-th file that has any, from file I on")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Leaves the tests of one part, so that several processes share what is selected."""
    if config.getoption("--part") is None:
        return
    number, count = map(int, config.getoption("--part").split("/"))
    files = sorted({item.path for item in items})[number - 1::count]
    config.hook.pytest_deselected(items=[item for item in items if item.path not in files])
    items[:] = [item for item in items if item.path in files]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Does a test marked `undisturbed` again that failed while a decider was replaced or the machine halted.

    Such a test is of what nodes promise while all of them run. One that gets no processor for a tenth of a second is
    replaced like one that died, with what is promised for that; and who asks it is answered late, or by others."""
    if pyfuncitem.get_closest_marker("undisturbed") is None:
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    for attempt in range(1, ATTEMPTS + 1):
        clusters, start = list(running), time.monotonic()
        before = sum(cluster.takeovers_told() for cluster in clusters)
        try:
            pyfuncitem.obj(**arguments)
            return True
        except Exception as failure:
            longest = max(halts.between(start, time.monotonic()), default=0.0)
            replaced = sum(cluster.takeovers() for cluster in running) - before
            if attempt == ATTEMPTS or (longest < HALT_S and replaced == 0):
                raise
            print(f"{pyfuncitem.name} is done again: {replaced} take-overs, longest halt {longest:.2f} s, {failure!r}")
            for cluster in list(running):
                if cluster in clusters:
                    cluster.wait_healthy()
                else:
                    cluster.kill_all()  # the test made it, and makes another
    return None


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Adds what the nodes wrote to a failure, while they are still there."""
    del item, call
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for cluster in running:
            for title, text in cluster.logs():
                report.sections.append((title, text[-LOG_CHARACTERS:]))


@pytest.fixture
def new_cluster(tmp_path):
    """Makes clusters that end with the test: new_cluster(count, *arguments, shards=1)."""
    with contextlib.ExitStack() as stack:
        numbers = itertools.count(1)

        def make(count=3, *arguments, shards=1):
            folder = tmp_path / f"cluster{next(numbers)}"
            return stack.enter_context(Cluster(folder, count, *arguments, shards=shards))

        yield make


@pytest.fixture(scope="module")
def trio(tmp_path_factory):
    """Three healthy nodes for tests that harm none of them."""
    with Cluster(tmp_path_factory.mktemp("trio"), 3) as cluster:
        yield cluster.start()


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    """One node for tests that do not harm it."""
    with Cluster(tmp_path_factory.mktemp("single"), 1) as cluster:
        yield cluster.start()


@pytest.fixture
def measured(request, capsys):
    """Notes a figure: measured("name", value); it is printed and goes into the report."""
    def note(name, value):
        request.node.user_properties.append((name, value))
        with capsys.disabled():
            print(f"\n    measured: {name} = {value}", end="", flush=True)
    return note


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a small file system of its own, which tests fill (harness/disk.py)."""
    if os.getuid() != 0:
        pytest.skip("mounting a small file system needs root")
    place = tmp_path / "disk"
    place.mkdir()
    failure = disk.mount(place)
    if failure:
        pytest.skip(f"a small file system cannot be mounted: {failure}")
    yield place
    disk.unmount(place)
