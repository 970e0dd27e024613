"""Every algorithm from the rules file to the command line, asked through nodes that do not decide."""

import itertools

import pytest

from harness import Cluster, Command, wait_for

RULES = """\
rules:
  - {name: even, match: {api: /even}, key: [user],
     limits: [{rate: 10/s, algorithm: leaky_bucket, burst: 4}]}
  - {name: cut, match: {api: /cut}, key: [user],
     limits: [{rate: 3/h, algorithm: sliding_buckets, buckets: 12}]}
  - {name: month, match: {api: /month}, key: [user],
     limits: [{rate: 3/month, algorithm: fixed_window, align: calendar, timezone: Europe/Berlin}]}
  - {name: first, match: {api: /first}, key: [user],
     limits: [{rate: 3/h, algorithm: fixed_window, align: first}]}
  - {name: jobs, match: {api: /job}, key: [user],
     limits: [{count: 3, algorithm: concurrency, timeout: 2s}, {rate: 100/h}]}
"""


@pytest.fixture(scope="module")
def ruled(tmp_path_factory):
    """Three nodes with these rules."""
    folder = tmp_path_factory.mktemp("algorithms")
    (folder / "rules.yaml").write_text(RULES)
    with Cluster(folder, 3, "--rules", str(folder / "rules.yaml")) as cluster:
        yield cluster.start()


def ask(cluster, at, command, *arguments):
    return Command(command, *arguments, "-o", "json", endpoints=[cluster.nodes[at % 3].endpoint]).rows


def test_a_queue_tells_how_long_to_wait(ruled):
    rows = ask(ruled, 0, "check", "api=/even", "user=ann", "--repeat", "4")
    assert all(row["allowed"] for row in rows)
    assert rows[0]["delay_ms"] == 0 and 0 < rows[1]["delay_ms"] <= 100
    assert [row["delay_ms"] for row in rows] == sorted(row["delay_ms"] for row in rows)


@pytest.mark.parametrize("api", ["/cut", "/month", "/first"])
def test_windows_admit_their_limit_through_any_node(ruled, api):
    allowed = [ask(ruled, at, "check", f"api={api}", "user=bob")[0]["allowed"] for at in range(6)]
    assert allowed == [True] * 3 + [False] * 3


def test_what_is_in_flight_is_released_renewed_or_ends(ruled):
    leases = [ask(ruled, at, "lease", "api=/job", "user=cid")[0].get("lease_id") for at in range(4)]
    assert len(set(leases[:3])) == 3 and all(leases[:3]) and leases[3] is None
    for at in range(3):
        done = Command("release", "--lease", leases[0], "api=/job", "user=cid",
                       endpoints=[ruled.nodes[at].endpoint])
        assert done.code == 0, done
    free = ask(ruled, 1, "peek", "api=/job", "user=cid", "--cost", "1")[0]
    assert free["allowed"]
    counter = itertools.count()
    wait_for(lambda: ask(ruled, next(counter), "peek", "api=/job", "user=cid", "--cost", "3")[0]["allowed"],
             10, "the end of leases that nobody released")
    assert Command("renew", "--lease", leases[1], "api=/job", "user=cid",
                   endpoints=[ruled.nodes[0].endpoint]).code == 1


def test_an_inline_key_has_leases_too(ruled):
    first = ask(ruled, 0, "lease", "--key", "exports", "--rate", "1/30s")[0]
    assert first["allowed"] and len(first["lease_id"]) == 16
    assert not ask(ruled, 1, "lease", "--key", "exports", "--rate", "1/30s")[0]["allowed"]
    assert Command("renew", "--lease", first["lease_id"], "--key", "exports", "--rate", "1/30s",
                   endpoints=[ruled.nodes[2].endpoint]).code == 0


def test_a_lease_that_nobody_gives_is_refused_with_what_was_expected(ruled):
    inline = ask(ruled, 2, "lease", "--key", "b", "--rate", "1/s", "--algorithm", "fixed_window")[0]
    ruled_one = ask(ruled, 0, "lease", "api=/cut", "user=dan")[0]
    for row in (inline, ruled_one):
        assert not row["allowed"] and (row["outcome"], row["status"]) == ("error", 400)
        assert row["message"].startswith("lease: expected a limit with algorithm concurrency")
    shown = Command("release", "--lease", "0" * 15 + "1", "api=/cut", "user=dan",
                    endpoints=[ruled.nodes[1].endpoint])
    assert shown.code == 1 and "release: expected a limit with algorithm concurrency" in shown.output
    assert ask(ruled, 1, "peek", "api=/cut", "user=dan", "--cost", "0")[0]["used"] == 0
