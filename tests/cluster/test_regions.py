"""Several regions, 80 ms apart: a ring each, one membership, one configuration."""

import signal

import pytest

from harness import promised, wait_for
from harness.wide import Regions, wan

DELAY_S = 0.04
ROUND_TRIP_S = 2 * DELAY_S
RULES = """\
unmatched: allow
rules:
  - name: pay
    match: {{api: /pay}}
    key: [user]
    limits: [{{rate: {rate}/day}}]
"""

MISSING = wan.why_not()
pytestmark = [pytest.mark.patient, pytest.mark.skipif(MISSING is not None, reason=str(MISSING))]


@pytest.fixture(name="regions", scope="module")
def fixture_regions(tmp_path_factory):
    """Two regions of two nodes each, and a third one that is not there yet."""
    with wan.Wan(["eu", "us", "ap"], DELAY_S) as network, \
            Regions(tmp_path_factory.mktemp("regions"), network) as cluster:
        for region in ("eu", "eu", "us", "us"):
            cluster.add(region)
        cluster.start()
        yield cluster


def apply(cluster, node, rate):
    """The version of the rules that a node was given."""
    file = f"{cluster.folder}/rules-{rate}.yaml"
    with open(file, "w", encoding="utf-8") as rules:
        rules.write(RULES.format(rate=rate))
    return node.tidegate("rules", "apply", file, "--yes", "-o", "json")


def in_force(nodes, version):
    return all((node.status() or {}).get("rules", {}).get("version") == version for node in nodes)


# A region's ring is of its own members; everybody knows everybody.
def test_each_region_has_a_ring_of_its_own(regions):
    everybody = {node.name: node.region for node in regions.nodes}
    for node in regions.nodes:
        own = {name for name, region in everybody.items() if region == node.region}
        assert regions.ring(node) == own
        members = node.answer("members")
        assert {member["name"]: member["region"] for member in members} == everybody
        assert {member["name"] for member in members if member["ring"] == "member"} == own
        assert {member["ring"] for member in members if member["name"] not in own} == {"abroad"}
    ids = {node.status()["cluster_id"] for node in regions.nodes}
    assert len(ids) == 1


# A limit is a region's own: what one has used the other still has.
def test_a_limit_is_counted_in_each_region(regions):
    for region in ("eu", "us"):
        one, other = regions.of(region)
        assert one.checks("shared", "10/day", 6) == 6
        assert other.checks("shared", "10/day", 6) == 4


# Settings are of the whole cluster, whoever was asked to change them.
def test_an_edit_in_one_region_is_in_force_in_the_other(regions):
    for rate, asked in enumerate(("us1", "eu2"), 3):
        applied = apply(regions, regions[asked], rate)
        assert applied.code == 0, applied
        version = applied.rows[0]["version"]
        promised(lambda: in_force(regions.nodes, version), 2 + ROUND_TRIP_S, "all nodes have the rules", 0.01)
    for region in ("eu", "us"):
        done = regions.of(region)[0].tidegate("check", "api=/pay", "user=ada", "--repeat", "5", "-o", "json")
        assert [row["outcome"] for row in done.rows] == ["allow"] * 4 + ["deny"]


# What a user asked for is counted where he asked, and told everywhere: of each region, and in all.
def test_totals_of_a_user_are_those_of_all_regions(regions):
    eu, us = regions["eu1"], regions["us2"]
    assert eu.tidegate("quota", "set", "zoe", "--limit", "50/day").code == 0
    wait_for(lambda: us.tidegate("quota", "show", "zoe").code == 0, 30, "us knows the user", 0.1)
    assert eu.tidegate("check", "user=zoe", "--repeat", "3").code == 0
    assert us.tidegate("check", "user=zoe", "--repeat", "2").code == 0

    def told():
        shown = us.answer("quota", "show", "zoe")
        each = {row["region"]: row["requests_total"] for row in shown["regions"]}
        return (shown["requests_total"], each["eu"], each["us"], shown["not_counted"]) == (5, 3, 2, [])
    wait_for(told, 60, "all that was asked is told", 0.2)


# What a node knows of the other region, and how fresh that is.
def test_status_tells_how_far_and_how_fresh_the_other_region_is(regions):
    def known():
        own, other = regions["eu1"].answer("status", "--regions")["regions"]
        assert (own["name"], own["own"], own["alive"], own["rtt_ms"]) == ("eu", True, 2, None)
        assert (other["name"], other["own"], other["alive"], other["in_reach"]) == ("us", False, 2, True)
        return other["rtt_ms"] and other["rtt_ms"] >= 1000 * ROUND_TRIP_S and other["heard_ms"] < 10_000
    wait_for(known, 60, "the round trip to us was measured", 0.1)


def with_the_third(regions):
    """The third region has joined, and one of the three may be missing: of two, one has most voters."""
    if not regions.of("ap"):
        regions.start([regions.add("ap"), regions.add("ap")])

    def spread():
        voters = regions["eu1"].status()["settings"]["voters"]
        return len(voters) == 5 and {name[:2] for name in voters} == {"eu", "us", "ap"}
    wait_for(spread, 30, "the voters of the settings are of all regions")


# A region can be added to a cluster that serves; its voters are spread then.
def test_a_third_region_joins(regions):
    with_the_third(regions)
    assert regions.ring(regions["ap2"]) == {"ap1", "ap2"}
    assert apply(regions, regions["ap2"], 7).code == 0


# Who is cut off decides on by what it has, says why nothing can be changed there, and takes what it lacks.
def test_a_region_that_is_cut_off_decides_and_catches_up(regions):
    with_the_third(regions)
    us, eu = regions.of("us"), regions.of("eu")
    regions.network.cut("us")
    assert us[0].checks("cut", "10/day", 6) == 6
    wait_for(lambda: us[0].status()["settings"]["frozen"], 60, "us knows that it is alone")
    assert us[1].checks("cut", "10/day", 6) == 4
    refused = apply(regions, us[1], 8)
    assert refused.code != 0 and "cannot be reached" in refused.error, refused
    applied = apply(regions, eu[0], 9)
    assert applied.code == 0, applied
    version = applied.rows[0]["version"]
    assert not in_force(us, version)
    assert not regions.complaints(us)
    regions.network.heal("us")
    wait_for(lambda: in_force(regions.nodes, version), 30, "all nodes have the rules")
    wait_for(lambda: not regions.complaints() or None, 60, "all regions are well", 0.1)


# All nodes of a region may end at once: it comes back as the same ring, with what it has counted.
def test_a_region_restarts_whole(regions):
    us = regions.of("us")
    assert us[0].checks("kept", "10/day", 6) == 6
    epoch = us[0].status()["epoch"]
    for node in us:
        node.signal(signal.SIGTERM)
    assert [node.wait_exit() for node in us] == [0, 0]
    assert regions["eu1"].checks("kept", "10/day", 1) == 1
    regions.start(us)
    assert us[1].checks("kept", "10/day", 6) == 4
    assert us[1].status()["epoch"] >= epoch
    assert regions.ring(us[0]) == {"us1", "us2"}


# A data directory holds the ring and the counts of a region, which no other region can use.
def test_a_node_does_not_start_in_another_region_by_its_data(regions):
    with_the_third(regions)
    node = regions["ap2"]
    node.signal(signal.SIGTERM)
    assert node.wait_exit() == 0
    node.arguments[1] = "eu"
    node.spawn()
    assert node.wait_exit() == 2
    assert "belongs to a node of region ap" in node.log()
    node.arguments[1] = "ap"
    regions.start([node])


def known(node, name):
    """What the node says of a member, None if it does not list it."""
    return next((member for member in node.answer("members", "--all") if member["name"] == name), None)


# Whoever is asked, a dead member is removed by the nodes of its region, which may stand before its name.
def test_a_member_is_removed_through_another_region(regions):
    eu = regions["eu1"]
    voters = regions["us1"].status()["register"]["voters"]  # of two members, one: without it the ring is frozen
    stays, goes = sorted(regions.of("us"), key=lambda node: node.name not in voters)
    goes.kill()
    wait_for(lambda: known(stays, goes.name)["state"] == "dead", 30, "its region knows that it is dead")
    wrong = eu.tidegate("remove", f"eu/{goes.name}")
    assert wrong.code != 0 and f"no member is called 'eu/{goes.name}'" in wrong.error, wrong
    removed = eu.tidegate("remove", f"us/{goes.name}")
    assert removed.code == 0, removed
    assert regions.ring(stays) == {stays.name}
    regions.start([goes])
    assert regions.ring(stays) == {"us1", "us2"}


# A region that is gone is removed while the others serve; if it comes back, it goes on with what it had.
def test_a_region_that_is_gone_is_removed(regions):
    with_the_third(regions)
    eu, us = regions["eu1"], regions.of("us")
    assert us[0].checks("removed", "10/day", 6) == 6
    refused = eu.tidegate("remove", "--region", "us")
    assert refused.code != 0 and "of region us answered" in refused.error, refused
    for node in us:
        node.signal(signal.SIGTERM)
    assert [node.wait_exit() for node in us] == [0, 0]
    wait_for(lambda: known(eu, "us1").get("unreachable_since"), 30, "us is out of reach")
    removed = eu.tidegate("remove", "--region", "us")
    assert removed.code == 0, removed
    assert known(eu, "us1")["state"] == "left"
    wait_for(lambda: [row["name"] for row in regions["ap2"].answer("status", "--regions")["regions"]] == ["ap", "eu"],
             30, "ap knows it too", 0.1)
    regions.start(us)
    wait_for(lambda: known(eu, "us1")["state"] == "alive", 30, "us is there again", 0.1)
    assert us[1].checks("removed", "10/day", 6) == 4
