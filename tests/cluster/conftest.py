"""Fixtures of the cluster tests, and the nodes' logs in the report of a test that failed."""

import contextlib
import itertools

import pytest

from harness import Cluster
from harness.cluster import running

LOG_CHARACTERS = 6000


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
