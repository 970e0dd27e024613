"""Entries of deploy/entries: tidegated where another program stood, by that program's environment and flags."""

import json
import os
import subprocess
import urllib.request

import pytest

from harness import wait_for
from harness.network import Network, why_not

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("TIDEGATE_BUILD", "build"))
GUBERNATOR = os.path.join(ROOT, "deploy", "entries", "gubernator")


def environment(**variables):
    return {"PATH": os.environ["PATH"], "TIDEGATED": os.path.join(BUILD, "tidegated"), **variables}


def enter(*arguments, **variables):
    """What comes of an entry that is to check what it made; its sentences."""
    done = subprocess.run([GUBERNATOR, *arguments, "--check-config"], env=environment(**variables), capture_output=True, text=True,
                          check=False)
    return done.returncode, done.stderr


def made(tmp_path, *arguments, **variables):
    """The configuration that an entry makes."""
    program = tmp_path / "shows"
    program.write_text("#!/bin/sh\ncat \"$2\"\n")
    program.chmod(0o755)
    done = subprocess.run([GUBERNATOR, *arguments], env={**environment(**variables), "TIDEGATED": str(program)},
                          capture_output=True, text=True, check=True)
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


def test_without_an_environment_it_listens_where_gubernator_does(tmp_path):
    assert enter() == (0, "")
    told = made(tmp_path)
    assert (told["grpc"], told["http"], told["gossip"]) == ('"127.0.0.1:1051"', '"127.0.0.1:1050"', '"127.0.0.1:7946"')
    assert told["ephemeral"] == "true" and "insecure" not in told and "seed" not in told
    assert "ephemeral" not in made(tmp_path, "--data", "/x")


def test_each_variable_is_an_option(tmp_path):
    told = made(tmp_path, "-debug", GUBER_GRPC_ADDRESS="10.0.0.1:81", GUBER_HTTP_ADDRESS=":80", GUBER_ADVERTISE_ADDRESS="10.9.9.9:81",
                GUBER_STATUS_HTTP_ADDRESS="10.0.0.1:9", GUBER_INSTANCE_ID="pod/1 a", GUBER_DATA_CENTER="eu-1",
                GUBER_GRPC_MAX_CONN_AGE_SEC="30", GUBER_LOG_FORMAT="json", GUBER_MEMBERLIST_ADDRESS="10.0.0.1:7000",
                GUBER_MEMBERLIST_KNOWN_NODES="a.example,10.0.0.2:7000,[fd00::1]:7,fd00::2")
    assert told == {
        "grpc": '"10.0.0.1:81"', "http": '"0.0.0.0:80"', "metrics": '"10.0.0.1:9"', "advertise": '"10.9.9.9"',
        "gossip": '"10.0.0.1:7000"', "peer": '"10.0.0.1:7601"', "insecure": "true", "http_name": '["*"]', "name": '"pod-1-a"',
        "region": '"eu-1"', "connection_age": '"30s"', "bootstrap": "true", "log_level": '"debug"', "log_format": '"json"',
        "seed": '["a.example:7946", "10.0.0.2:7000", "[fd00::1]:7", "[fd00::2]:7946"]',
        "metrics_compat": '"gubernator"', "resp": '"off"', "ephemeral": "true"}
    assert made(tmp_path, GUBER_PEER_DISCOVERY_TYPE="dns", GUBER_DNS_FQDN="all.example")["seed"] == '["all.example:7946"]'


def test_a_file_says_what_the_environment_may_and_wins(tmp_path):
    file = tmp_path / "gubernator.conf"
    file.write_text("# a comment\n\n  GUBER_HTTP_ADDRESS=no\nGUBER_GRPC_ADDRESS = 127.0.0.1:2 \nGUBER_INSTANCE_ID=a=b\n")
    told = made(tmp_path, "-config", str(file), GUBER_GRPC_ADDRESS="127.0.0.1:3")
    assert (told["grpc"], told["http"], told["name"]) == ('"127.0.0.1:2"', '"127.0.0.1:1050"', '"a-b"')
    file.write_text("GUBER_LOG_LEVEL=info\nnothing\n")
    assert enter("-config", str(file)) == (2, f"gubernator: {file}: line 2: expected NAME=VALUE\n")
    assert enter("-config", "/no/file")[1] == "gubernator: -config: found no file /no/file that can be read\n"


@pytest.mark.parametrize("variables, sentence", [
    ({"GUBER_TLS_AUTO": "true"}, "GUBER_TLS_AUTO: this version has no TLS"),
    ({"GUBER_MEMBERLIST_SECRET_KEYS": "a"}, "GUBER_MEMBERLIST_SECRET_KEYS: this version does not encrypt gossip"),
    ({"GUBER_PEER_DISCOVERY_TYPE": "etcd"}, "GUBER_PEER_DISCOVERY_TYPE: found etcd; nodes find each other by gossip: say member-list"),
    ({"GUBER_PEER_DISCOVERY_TYPE": "k8s"}, "GUBER_PEER_DISCOVERY_TYPE: found k8s; nodes find each other by gossip: say dns"),
    ({"GUBER_PEER_DISCOVERY_TYPE": "x"}, 'GUBER_PEER_DISCOVERY_TYPE: found "x"; expected member-list, dns or none'),
    ({"GUBER_PEER_DISCOVERY_TYPE": "dns"}, "GUBER_DNS_FQDN: found nothing"),
    ({"GUBER_GRPC_ADDRESS": "1051"}, 'GUBER_GRPC_ADDRESS: found "1051"; expected HOST:PORT'),
    ({"GUBER_HTTP_ADDRESS": 'a" :1'}, 'GUBER_HTTP_ADDRESS: found host "a" "; expected a name or an address'),
    ({"GUBER_HTTP_ADDRESS": "nowhere.invalid:1"}, "GUBER_HTTP_ADDRESS: found no address of nowhere.invalid"),
    ({"GUBER_DATA_CENTER": "a b"}, 'GUBER_DATA_CENTER: found "a b"; expected letters, digits, and . _ -'),
    ({"GUBER_GRPC_MAX_CONN_AGE_SEC": "1m"}, 'GUBER_GRPC_MAX_CONN_AGE_SEC: found "1m"; expected seconds'),
    ({"GUBER_LOG_LEVEL": "loud"}, 'GUBER_LOG_LEVEL: found "loud"; expected trace, debug'),
    ({"GUBER_LOG_FORMAT": "xml"}, 'GUBER_LOG_FORMAT: found "xml"; expected json or text'),
])
def test_what_cannot_be_kept_is_refused_with_its_variable(variables, sentence):
    code, said = enter(**variables)
    assert code == 2 and said.startswith("gubernator: " + sentence), said


def test_what_has_no_meaning_here_is_named():
    assert enter(GUBER_CACHE_SIZE="5", GUBER_BATCH_WAIT="1ms", GUBER_PEER_PICKER="") == (
        0, "gubernator: GUBER_BATCH_WAIT has no effect here\ngubernator: GUBER_CACHE_SIZE has no effect here\n")


def post(address, path, body=None):
    request = urllib.request.Request(f"http://{address}:1050{path}", json.dumps(body).encode() if body else None,
                                     {"Content-Type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=20) as answer:
        return json.load(answer)


# Three machines that differ in nothing but their addresses, as replicas of one deployment do.
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_three_of_one_environment_are_one_cluster_with_one_limit(tmp_path):
    with Network(3) as network:
        addresses = [network.address(at) for at in range(3)]
        variables = environment(GUBER_GRPC_ADDRESS="0.0.0.0:1051", GUBER_HTTP_ADDRESS="0.0.0.0:1050",
                                GUBER_MEMBERLIST_KNOWN_NODES=",".join(addresses), GUBER_CACHE_SIZE="5000")
        nodes = []
        try:
            for at in range(3):
                with open(tmp_path / f"{at}.log", "wb") as log:
                    nodes.append(subprocess.Popen(
                        ["setpriv", "--pdeathsig", "KILL", *network.place(at)["prefix"], GUBERNATOR], cwd=tmp_path, stdout=log, stderr=log,
                        stdin=subprocess.DEVNULL, env={**variables, "GUBER_INSTANCE_ID": f"n{at}"}))

            def are_one():
                try:
                    return [post(address, "/v1/HealthCheck") for address in addresses] == [
                        {"status": "healthy", "message": "", "peer_count": 3, "advertise_address": f"{address}:1051"}
                        for address in addresses]
                except OSError:
                    return False
            wait_for(are_one, 60, "three nodes are one cluster")
            item = {"name": "logins", "unique_key": "ada", "hits": 1, "limit": 7, "duration": 3600000}
            told = [post(addresses[at % 3], "/v1/GetRateLimits", {"requests": [item]})["responses"][0] for at in range(9)]
            assert [(one["status"], one["remaining"]) for one in told] == [
                *(("UNDER_LIMIT", str(left)) for left in range(6, -1, -1)), *([("OVER_LIMIT", "0")] * 2)]
        finally:
            for node in nodes:
                node.kill()
                node.wait()
