"""Editing limits: counts stay with their limits, drain at the new rate, and follow a user across plans."""

import random
import time

import pytest

from harness import Command, wait_for
from harness.resp import Resp


def fresh():
    return f"{random.getrandbits(48):x}"


def apply(cluster, tmp_path, text):
    """Applies rules through one node, and waits until all nodes decide by them."""
    path = tmp_path / f"{fresh()}.yaml"
    path.write_text(text)
    applied = Command("rules", "apply", str(path), "--yes", endpoints=cluster[0].endpoints)
    assert applied.code == 0, applied
    cluster.wait_statuses(lambda status: status["rules"]["version"] == status["rules"]["newest"],
                          "the rules are in force everywhere")
    return applied.output


def check(node, *words):
    """The one decision of `tidegate check`, whatever it is."""
    asked = Command("check", *words, "-o", "json", endpoints=node.endpoints)
    assert asked.code in (0, 1), asked
    return asked.rows[0]


def until_allowed(ask, within_s):
    """Asks until it is allowed, and gives the first denial."""
    first = ask()
    assert not first["allowed"]
    wait_for(lambda: ask()["allowed"], within_s, "it is allowed")
    return first


# Ten a day are used up; then five a second are taken out in front of them, and come back behind them.
def test_a_used_up_limit_stays_used_up_wherever_it_stands(trio, tmp_path):
    user = f"user={fresh()}"
    form = "rules: [{name: edited, key: [user], limits: [%s]}]"
    apply(trio, tmp_path, form % "{rate: 5/s, burst: 100}, {rate: 10/d}")
    assert check(trio[0], user, "--cost", "10")["allowed"]
    told = apply(trio, tmp_path, form % "{rate: 10/d}")
    assert "edited: the count of 10/d token_bucket stays" in told, told
    assert "edited: the count of 5/s token_bucket ends" in told, told
    for node in trio:
        denied = check(node, user)
        assert not denied["allowed"] and denied["used"] == 10 and denied["window"] == "10/d", denied
    apply(trio, tmp_path, form % "{rate: 20/d}, {rate: 5/s, burst: 100}")
    left = check(trio[1], user)
    assert (left["window"], left["used"], left["remaining"]) == ("20/d", 11, 9), left
    versions = Command("rules", "history", "-o", "json", endpoints=trio[0].endpoints)
    back = versions.rows[0][1]["version"]  # that of 10/d alone
    assert Command("rules", "rollback", str(back), "--yes", endpoints=trio[2].endpoints).code == 0
    wait_for(lambda: check(trio[0], user)["limit"] == 10, 10, "the version is back")
    assert check(trio[0], user)["used"] >= 11


# Two an hour are used up, inline; then sixty a second: the wait that is told is the wait there is.
def test_an_inline_key_drains_at_the_rate_that_it_is_asked_by(trio):
    key = fresh()
    assert check(trio[0], "--key", key, "--rate", "1/h", "--burst", "2", "--cost", "2")["allowed"]
    first = until_allowed(lambda: check(trio[1], "--key", key, "--rate", "60/s", "--burst", "2"), 2)
    assert 0 < first["retry_after_ms"] <= 17, first


# The same by a rule whose window becomes shorter, for each algorithm.
@pytest.mark.parametrize("algorithm", ["token_bucket", "leaky_bucket", "fixed_window", "sliding_window",
                                       "sliding_buckets", "sliding_log"])
def test_a_shorter_window_drains_from_the_first_denial_on(trio, tmp_path, algorithm):
    user = f"user={fresh()}"
    form = "rules: [{name: %s, key: [user], limits: [{rate: %s, algorithm: %s}]}]"
    apply(trio, tmp_path, form % (algorithm, "2/h", algorithm))
    assert check(trio[0], user, "--cost", "2")["allowed"]
    assert not check(trio[0], user)["allowed"]
    apply(trio, tmp_path, form % (algorithm, "2/s", algorithm))
    wait_for(lambda: check(trio[1], user)["allowed"], 4, "it has drained")


# A Redis client that asks by another rate is told a wait that it can rely on.
def test_a_redis_client_drains_at_the_rate_that_it_asks_by(trio):
    key = fresh()
    with Resp(trio[0].resp) as redis:
        assert redis.ask("CL.THROTTLE", key, "1", "1", "3600", "2")[0] == 0
        limited, limit, _, retry_s, _ = redis.ask("CL.THROTTLE", key, "1", "60", "1")
        assert (limited, limit) == (1, 2) and retry_s <= 1
        wait_for(lambda: redis.ask("CL.THROTTLE", key, "1", "60", "1")[0] == 0, retry_s + 1, "it has drained")


# A hundred an hour are used up and then five an hour: ten are owed, for two hours and not for nineteen.
def test_a_lowered_limit_is_owed_at_most_once_more(trio, tmp_path):
    user = f"user={fresh()}"
    form = "rules: [{name: lowered, key: [user], limits: [{rate: %s/h}]}]"
    apply(trio, tmp_path, form % 100)
    assert check(trio[0], user, "--cost", "100")["allowed"]
    apply(trio, tmp_path, form % 5)
    denied = check(trio[2], user)
    assert not denied["allowed"] and denied["used"] == 10, denied
    assert denied["reset_after_ms"] <= 2 * 3600 * 1000, denied
    assert denied["retry_after_ms"] <= 72 * 60 * 1000, denied


# Five of free's five are used; as premium, by a tier of his own and by limits of his own they stay used.
def test_a_user_keeps_what_he_consumed_when_his_plan_changes(trio, tmp_path):
    apply(trio, tmp_path, "tiers: {free: {limits: [{rate: 5/h}]}, premium: {limits: [{rate: 20/h}]}}\n"
                          "rules: [{name: default, group: tier, priority: -1, key: [user],"
                          " limits: [{rate: 7/h}]}]")
    name = fresh()
    user = f"user={name}"
    assert check(trio[0], user, "tier=free", "--cost", "5")["allowed"]
    assert not check(trio[1], user, "tier=free")["allowed"]
    assert Command("quota", "set", name, "--tier", "premium", endpoints=trio[1].endpoints).code == 0

    def plan_at_all_nodes(rule, limit):
        wait_for(lambda: all(check(node, user, "tier=free", "--cost", "0")["rule"] == rule and
                             check(node, user, "tier=free", "--cost", "0")["limit"] == limit
                             for node in trio), 10, "the plan is in force")

    plan_at_all_nodes("tier premium", 20)
    assert check(trio[2], user, "tier=free", "--cost", "0")["remaining"] == 15
    assert check(trio[0], user, "tier=free", "--cost", "5")["remaining"] == 10
    assert Command("quota", "set", name, "--limit", "12/h", endpoints=trio[2].endpoints).code == 0
    plan_at_all_nodes("tier premium", 12)
    assert check(trio[1], user, "tier=free", "--cost", "0")["remaining"] == 2
    assert Command("quota", "delete", name, endpoints=trio[0].endpoints).code == 0
    wait_for(lambda: check(trio[0], user, "--cost", "0")["rule"] == "default", 10, "the record is gone")
    assert not check(trio[0], user)["allowed"]  # ten of the default's seven


# While one node after the other hears of an edit, nobody gets more than the larger of the two limits.
def test_an_edit_under_load_admits_no_more_than_the_larger_limit(trio, tmp_path):
    form = "rules: [{name: swayed, key: [user], limits: [%s]}]"
    apply(trio, tmp_path, form % "{rate: 30/h, algorithm: sliding_log}, {rate: 40/d}")
    user = fresh()
    admitted = 0
    orders = ["{rate: 40/d}, {rate: 25/h, algorithm: sliding_log}",
              "{rate: 25/h, algorithm: sliding_log}",
              "{rate: 1000/s}, {rate: 30/h, algorithm: sliding_log}, {rate: 40/d}"]
    clients = [node.client() for node in trio]
    try:
        for order in orders:
            path = tmp_path / f"{fresh()}.yaml"
            path.write_text(form % order)
            assert Command("rules", "apply", str(path), "--yes", endpoints=trio[1].endpoints).code == 0
            end = time.monotonic() + 1
            while time.monotonic() < end:
                admitted += sum(client.rules({"user": user}).allowed for client in clients)
    finally:
        for client in clients:
            client.close()
    assert 25 <= admitted <= 30, admitted
