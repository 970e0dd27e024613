"""scope: global - one limit over regions that are 80 ms apart."""

import time

import pytest

from harness import wait_for
from harness.wide import Regions, wan

DELAY_S = 0.04
LEASE_S = 2  # tokens last a second; what was on its way may arrive later
RULES = """\
unmatched: deny
pools: {all: {rate: 1000/s, scope: global, home: eu}}
rules:
  - {name: lent, match: {api: /lent}, key: [user], limits: [{rate: 1/day}], mode: {elastic: {pool: all}}}
  - {name: open, match: {api: /open}, key: [user], limits: [{rate: 100/day}], scope: global, home: eu, on_failure: open}
  - {name: closed, match: {api: /closed}, key: [user], limits: [{rate: 100/day}], scope: global, home: eu}
  - {name: local, match: {api: /local}, key: [user], limits: [{rate: 100/day}], scope: global, home: eu,
     on_failure: {local: {share: 10%}}}
  - {name: hashed, match: {api: /hashed}, key: [user], limits: [{rate: 20/day}], scope: global}
"""

pytestmark = [pytest.mark.patient, pytest.mark.skipif(wan.why_not() is not None, reason=str(wan.why_not()))]


@pytest.fixture(name="regions", scope="module")
def fixture_regions(tmp_path_factory):
    """Two regions of two nodes each, and rules whose keys are counted in one of them."""
    folder = tmp_path_factory.mktemp("global")
    with wan.Wan(["eu", "us"], DELAY_S) as network, Regions(folder, network) as cluster:
        for region in ("eu", "eu", "us", "us"):
            cluster.add(region)
        cluster.start()
        file = folder / "rules.yaml"
        file.write_text(RULES, encoding="utf-8")
        applied = cluster["us2"].tidegate("rules", "apply", str(file), "--yes")
        assert applied.code == 0, applied
        wait_for(lambda: all("closed" in node.tidegate("rules", "list").output for node in cluster.nodes), 60,
                 "all nodes have the rules")
        wait_for(lambda: ask(cluster["us1"], "closed", "first", 1)["allow"] or None, 60, "tokens are leased")
        yield cluster


def ask(node, rule, user, count, *more):
    """How many of so many checks had which outcome."""
    done = node.tidegate("check", f"api=/{rule}", f"user={user}", "--repeat", str(count), "-o", "json", *more)
    outcomes = [row["outcome"] for row in done.rows]
    return {outcome: outcomes.count(outcome) for outcome in {"allow", "deny", "error", *outcomes}}


def used(node, rule, user):
    return node.tidegate("peek", f"api=/{rule}", f"user={user}", "--cost", "0", "-o", "json").rows[0]["used"]


def owner(node, rule, user):
    """Who decides a key in the node's region, and which region counts it."""
    return node.tidegate("owner", f"api=/{rule}", f"user={user}", "-o", "json").rows[0]


def exhaust(nodes, rule, user):
    """What all nodes together allow, asked again and again until none does any more for longer than a lease."""
    allowed, last = 0, time.monotonic()
    while time.monotonic() < last + LEASE_S:
        for node in nodes:
            got = ask(node, rule, user, 10)["allow"]
            allowed += got
            last = time.monotonic() if got else last
    return allowed


# Wherever a key is asked for, what is allowed is one limit, and one region counts it.
@pytest.mark.parametrize("rule,limit,homes", [("closed", 100, ["eu"]), ("hashed", 20, ["eu", "us"])])
def test_all_regions_together_allow_the_limit(regions, rule, limit, homes):
    home = owner(regions["us1"], rule, "ada")["home"]
    assert home in homes
    assert {owner(node, rule, "ada")["home"] for node in regions.nodes} == {home}
    assert exhaust(regions.nodes, rule, "ada") == limit
    told = {node.name: used(node, rule, "ada") for node in regions.nodes}
    assert set(told.values()) == {limit}, (told, home, {node.name: node.answer("status") for node in regions.nodes})


# What one region was told of is known to the other: a refund, a reset.
def test_what_is_not_a_check_is_done_where_the_key_is_counted(regions):
    us, eu = regions["us1"], regions["eu1"]
    assert us.tidegate("hit", "api=/closed", "user=bob", "--cost", "7").code == 0
    assert used(eu, "closed", "bob") == 7
    assert us.tidegate("reset", "api=/closed", "user=bob").code == 0
    assert used(eu, "closed", "bob") == 0


# A region that is cut off allows what it holds, then what its rule says; the home goes on. Both are one again after.
def test_a_region_that_is_cut_off_keeps_to_its_rule(regions):
    us, eu = regions.of("us"), regions.of("eu")
    regions.network.cut("us")
    time.sleep(LEASE_S)
    assert ask(us[0], "closed", "cut", 5)["error"] == 5
    assert ask(us[1], "open", "cut", 5)["allow"] == 5
    assert sum(ask(node, "local", "cut", 8)["allow"] for node in us) == 10
    assert exhaust(eu, "closed", "cut") == 100
    assert used(eu[0], "open", "cut") == 0
    regions.network.heal("us")
    wait_for(lambda: ask(us[0], "open", "healed", 1)["allow"] and not ask(us[0], "closed", "cut", 1)["error"] or None,
             60, "us asks its home again")
    assert exhaust(us, "closed", "cut") == 0


# A pool of all regions is lent by its home: to another one, too, while that reaches it, and until a load is told anywhere.
def test_a_pool_of_all_regions_is_lent_by_its_home(regions):
    us, eu = regions.of("us"), regions.of("eu")

    def borrows(node):
        """How many checks of a key that is far above its limit were allowed."""
        return ask(node, "lent", "ada", 5).get("elastic_borrowed", 0)

    def pool(node):
        return next(row for row in node.answer("pools", "list") if row["name"] == "all")

    def told(node):
        """A load is told, which is believed for three seconds."""
        return node.tidegate("pools", "report", "all", "--load", "1").code == 0

    wait_for(lambda: borrows(us[0]) or None, 60, "us borrows")
    for node in (us[1], eu[1]):
        wait_for(lambda: (borrows(us[0]) and pool(node)["borrowed"] > 0) or None, 60, f"{node} knows of it")
        assert (pool(node)["scope"], pool(node)["home"], pool(node)["heard"]) == ("global", "eu", True)
    wait_for(lambda: (told(eu[1]) and not borrows(us[0])) or None, 60, "us hears of a load that eu was told")
    wait_for(lambda: (told(us[1]) and not borrows(eu[0])) or None, 60, "eu hears of a load that us was told")
    wait_for(lambda: borrows(us[0]) or None, 60, "us borrows again")
    regions.network.cut("us")
    wait_for(lambda: not borrows(us[0]) or None, 60, "us borrows nothing alone")
    assert ask(us[0], "lent", "eve", 1)["allow"] == 1
    wait_for(lambda: not pool(us[0])["heard"] or None, 60, "us says that it does not hear of the pool")
    wait_for(lambda: borrows(eu[0]) or None, 60, "eu borrows on")
    regions.network.heal("us")
    wait_for(lambda: borrows(us[0]) or None, 60, "us borrows from its home again")


KILL_RULES = """\
unmatched: deny
rules:
  - {name: calls, match: {api: /calls}, key: [user], limits: [{rate: 400/day, algorithm: sliding_log}],
     scope: global, home: eu}
"""


# When the node that counts a key is killed, its successor knows what other regions hold, or grants nothing until
# that has ended; then what is left is used, and no more.
def test_a_limit_outlives_the_node_that_counts_it(tmp_path):
    with wan.Wan(["eu", "us"], DELAY_S) as network, Regions(tmp_path, network) as cluster:
        for region in ("eu", "eu", "eu", "us"):
            cluster.add(region)
        cluster.start()
        file = tmp_path / "rules.yaml"
        file.write_text(KILL_RULES, encoding="utf-8")
        assert cluster["eu1"].tidegate("rules", "apply", str(file), "--yes").code == 0
        us = cluster["us1"]
        wait_for(lambda: "calls" in us.tidegate("rules", "list").output, 60, "us has the rules")
        wait_for(lambda: ask(us, "calls", "first", 1)["allow"] or None, 60, "tokens are leased")
        place = owner(cluster["eu1"], "calls", "ada")
        allowed = sum(ask(us, "calls", "ada", 10)["allow"] for _ in range(8))
        assert allowed > 0
        cluster[place["decider"]].kill()
        allowed += wait_for(lambda: ask(us, "calls", "ada", 10)["allow"], 60, "us has tokens again")
        allowed += exhaust(cluster.live, "calls", "ada")
        assert 0.95 * 400 <= allowed <= 400
        assert {used(node, "calls", "ada") for node in cluster.live} == {400}
