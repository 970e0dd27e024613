"""gRPC's own clients, of Python, Node.js and Go, grpcurl, and the load generator of nghttp2: health, deadlines, a thousand
streams, and nodes that end connections or start anew beneath them."""

import contextlib
import glob
import json
import os
import subprocess

import pytest

import kits
from harness import scaled, wait_for
from harness.metrics import Page

SECONDS = 150
GO_MODULES = ("google.golang.org/grpc@v1.85.0",)
GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3"
AGE_S, FAST = 300, 60  # how long a connection lives, and by how much the node's clock is too fast for it
PYTHON_PACKAGES = ("grpcio==1.85.0", "grpcio-health-checking==1.85.0", "grpcio-reflection==1.85.0")
NODE_PACKAGES = ("@grpc/grpc-js@1.14.7", "@grpc/proto-loader@0.8.1")
CHECK = "/grpc.health.v1.Health/Check"
PROTO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "node", "gateway", "grpc", "proto")
PYTHON_PROGRAM = """\
import json, sys
import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

def failure(ask):
    try:
        ask()
    except grpc.RpcError as error:
        return error.code().name, error.details()

def limits(pool, channel):
    # What clients of Gubernator ask, by the messages that the node's own descriptors tell of.
    made = {name: GetMessageClass(pool.FindMessageTypeByName("pb.gubernator.GetRateLimits" + name))
            for name in ("Req", "Resp")}
    call = channel.unary_unary("/pb.gubernator.V1/GetRateLimits", made["Req"].SerializeToString, made["Resp"].FromString)
    asked = dict(name="n", unique_key="k", hits=3, limit=5, duration=60000, metadata={"a": "b"})
    said = call(made["Req"](requests=[asked, dict(name="n"), dict(asked, behavior=48)]), timeout=30).responses
    return [(one.status, one.limit, one.remaining, one.error, sorted(one.metadata)) for one in said]

REQUEST = health_pb2.HealthCheckRequest
with grpc.insecure_channel("127.0.0.1:" + sys.argv[1]) as channel:
    health = health_pb2_grpc.HealthStub(channel)
    watch = health.Watch(REQUEST(service="grpc.health.v1.Health"), timeout=30)
    many = [health.Check.future(REQUEST(), timeout=30) for _ in range(1000)]
    tells = ProtoReflectionDescriptorDatabase(channel)
    pool = DescriptorPool(tells)
    told = {
        "services": sorted(tells.get_services()),
        "methods": [one.name for name in sorted(tells.get_services())
                    for one in pool.FindServiceByName(name).methods],
        "limits": str(limits(pool, channel)),
        "check": health.Check(REQUEST(), timeout=30).status,
        "watch": next(watch).status,
        "many": sum(one.result().status == 1 for one in many),
        "stranger": failure(lambda: health.Check(REQUEST(service="no"), timeout=30)),
        "nowhere": failure(lambda: channel.unary_unary("/a.B/C")(b"", timeout=30)),
        "packed": failure(lambda: channel.unary_unary(
            "/grpc.health.v1.Health/Check")(bytes(100), timeout=30, compression=grpc.Compression.Gzip)),
        "long": failure(lambda: channel.unary_unary("/grpc.health.v1.Health/Check")(bytes(5000), timeout=30)),
        "late": failure(lambda: next(health.Watch(REQUEST(), timeout=0.3)) and [*health.Watch(REQUEST(), timeout=0.3)]),
    }
    watch.cancel()
    print(json.dumps(told), flush=True)
    sys.stdin.readline()  # the node was started anew
    print(json.dumps(health.Check(REQUEST(), wait_for_ready=True, timeout=30).status))
"""
NODE_PROGRAM = """\
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');
const {Health} = grpc.loadPackageDefinition(loader.loadSync(process.argv[3])).grpc.health.v1;
const client = new Health('127.0.0.1:' + process.argv[2], grpc.credentials.createInsecure());
const check = (service) => new Promise((done) => client.Check({service},
  (error, answer) => done(error ? [error.code, error.details] : answer.status)));
(async () => {
  const many = await Promise.all([...Array(1000).keys()].map(() => check('')));
  const stranger = await check('no');
  const watch = client.Watch({service: ''});
  const told = await new Promise((done) => watch.once('data', (answer) => done(answer.status)));
  watch.on('error', () => {});
  watch.cancel();
  client.close();
  console.log(JSON.stringify({many: many.filter((one) => one === 'SERVING' || one === 1).length, stranger, told}));
})();
"""


@pytest.fixture(scope="module")
def python():
    folder = kits.pip("grpc-python", *PYTHON_PACKAGES)
    with open(os.path.join(folder, "client.py"), "w", encoding="utf-8") as file:
        file.write(PYTHON_PROGRAM)
    return [os.path.join(folder, "bin", "python"), os.path.join(folder, "client.py")]


def test_a_client_of_python_works_and_comes_back(python, new_cluster):
    node = new_cluster(1).start()[0]
    with subprocess.Popen([*python, str(node.port + 5)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as client:
        told = json.loads(client.stdout.readline())
        assert told["check"] == told["watch"] == 1 and told["many"] == 1000
        assert told["services"] == ["envoy.service.ratelimit.v3.RateLimitService", "grpc.health.v1.Health",
                                    "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection",
                                    "kuadrant.service.ratelimit.v1.RateLimitService", "pb.gubernator.V1"]
        assert told["methods"] == ["ShouldRateLimit", "Check", "Watch", "ServerReflectionInfo", "ServerReflectionInfo",
                                   "CheckRateLimit", "Report", "Reserve", "Commit", "GetRateLimits", "HealthCheck",
                                   "LiveCheck"]
        assert told["limits"] == str([(0, 5, 2, "", ["owner"]), (0, 0, 0, "field 'unique_key' cannot be empty", []),
                                      (1, 5, 0, "", ["multi_region", "owner"])])
        assert told["stranger"] == ["NOT_FOUND", "unknown service"]
        assert told["nowhere"] == ["UNIMPLEMENTED", "unknown method /a.B/C"]
        assert told["packed"][0] == "UNIMPLEMENTED"
        assert told["long"] == ["RESOURCE_EXHAUSTED", "found a message of 5000 bytes; expected at most 1024"]
        assert told["late"][0] == "DEADLINE_EXCEEDED"
        node.stop()
        node.start()
        node.wait_ready()
        client.stdin.write("\n")
        client.stdin.flush()
        assert json.loads(client.stdout.readline()) == 1
        assert client.wait(timeout=scaled(30)) == 0


def test_a_client_of_node_js_works(single):
    folder = kits.npm("grpc-node", *NODE_PACKAGES)
    with open(os.path.join(folder, "client.js"), "w", encoding="utf-8") as file:
        file.write(NODE_PROGRAM)
    done = subprocess.run(["node", "client.js", str(single[0].port + 5), os.path.abspath(os.path.join(PROTO, "health.proto"))],
                          cwd=folder, capture_output=True, text=True, check=False, timeout=scaled(60))
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["many"] == 1000 and said["stranger"] == [5, "unknown service"] and said["told"] in ("SERVING", 1)


@pytest.fixture(scope="module")
def golang():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "clients", "grpc.go"), encoding="utf-8") as file:
        return kits.go("grpc-go", file.read(), *GO_MODULES)


class Steady:
    """grpc-go calls nodes without a pause."""

    def __init__(self, program, *nodes):
        self.process = subprocess.Popen([program, "steady", *(str(node.port + 5) for node in nodes)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.seen = {"calls": 0}

    def look(self, word="more\n"):
        self.process.stdin.write(word)
        self.process.stdin.flush()
        self.seen = json.loads(self.process.stdout.readline())
        return self.seen

    def goes_on(self):
        """Waits for a hundred calls more."""
        calls = self.look()["calls"]
        wait_for(lambda: self.look()["calls"] > calls + 100, 30, "the calls go on")

    def end(self):
        seen = self.look("\n")
        assert self.process.wait(timeout=scaled(30)) == 0
        return seen


@contextlib.contextmanager
def steady(program, *nodes):
    calls = Steady(program, *nodes)
    try:
        yield calls
    finally:
        calls.process.kill()
        calls.process.communicate()


# A thousand calls, and a thousand streams that are open at once, over one connection; what is cancelled or too late ends,
# and the node knows.
def test_a_client_of_go_works(golang, new_cluster):
    node = new_cluster(1).start()[0]
    done = subprocess.run([golang, "once", str(node.port + 5)], capture_output=True, text=True, check=False, timeout=scaled(90))
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["asked"] == seen["open"] == 1000 and seen["connections"] == 1
    assert seen["cancelled"] == {"Canceled": 1000}
    assert seen["late"] == seen["over"] == "DeadlineExceeded"
    assert seen["refused"] == {"stranger": "NotFound", "method": "Unimplemented", "case": "Unimplemented",
                               "compressed": "Unimplemented", "long": "ResourceExhausted"}
    wait_for(lambda: Page(node.http).of("tidegate_http2_resets_total", reason="cancelled") >= 1000, 10, "they are counted")
    page = Page(node.http)
    assert page.of("tidegate_grpc_requests_total", method="grpc.health.v1.Health/Check", status="OK") == 1000
    assert page.of("tidegate_http2_connections_total") == 1


# Each node in turn stops and comes back: the calls go on at the other one, and none fails.
def test_no_call_fails_while_nodes_are_started_anew(golang, new_cluster):
    cluster = new_cluster(2).start()
    with steady(golang, *cluster) as calls:
        calls.goes_on()
        for node in cluster:
            assert node.stop() == 0
            calls.goes_on()
            node.start()
            cluster.wait_healthy()
            calls.goes_on()
        seen = calls.end()
    assert seen["failed"] == {} and seen["connections"] > 2


# A connection that is old is ended in two steps: its client opens another one, and no call fails. The node's clock runs
# sixty times as fast.
def test_no_call_fails_as_connections_come_of_age(golang, new_cluster):
    libraries = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
    assert libraries, "libfaketime is missing: `make deps` installs it"
    node = new_cluster(1, "--ephemeral")[0]
    node.environment = {"LD_PRELOAD": libraries[0], "FAKETIME": f"+0 x{FAST}"}
    node.start()
    with steady(golang, node) as calls:
        wait_for(lambda: Page(node.http).of("tidegate_http2_goaways_total", reason="age") >= 2, 4 * AGE_S / FAST + 20,
                 "two connections are told to end")
        calls.goes_on()
        seen = calls.end()
    assert seen["failed"] == {} and seen["connections"] >= 2


# Reflection tells a tool that knows nothing which services there are, and how to call them.
def test_grpcurl_needs_no_file(single):
    program, address = kits.go_tool("grpcurl", GRPCURL), f"127.0.0.1:{single[0].port + 5}"

    def grpcurl(*arguments):
        return subprocess.run([program, "-plaintext", *arguments], capture_output=True, text=True, check=False, timeout=scaled(60))
    assert {"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"} <= set(grpcurl(address, "list").stdout.split())
    assert "rpc Check ( .grpc.health.v1.HealthCheckRequest )" in grpcurl(address, "describe", "grpc.health.v1.Health").stdout
    done = grpcurl("-d", '{"service": ""}', address, "grpc.health.v1.Health/Check")
    assert json.loads(done.stdout) == {"status": "SERVING"}, done
    done = grpcurl("-d", '{"service": "no"}', address, "grpc.health.v1.Health/Check")
    assert done.returncode != 0 and "NotFound" in done.stderr, done


# Connections with a hundred streams each at a time: all are answered, with 200 each.
def test_h2load_is_answered_by_stream(single, tmp_path, measured):
    body = tmp_path / "body"
    body.write_bytes(bytes(5))
    done = subprocess.run(["h2load", "-n", "100000", "-c", "8", "-m", "100", "-d", str(body), "-H",
                           "content-type: application/grpc", f"http://127.0.0.1:{single[0].port + 5}{CHECK}"],
                          capture_output=True, text=True, check=True, timeout=scaled(120))
    assert "100000 succeeded, 0 failed, 0 errored" in done.stdout
    measured("requests of gRPC a second, as h2load has them", done.stdout.split(" req/s")[0].split()[-1])
