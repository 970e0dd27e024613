"""gRPC's own clients, of Python and of Node.js, and the load generator of nghttp2: health, deadlines, a thousand streams,
and a node that is started anew beneath them."""

import json
import os
import subprocess

import pytest

import kits
from harness import scaled

SECONDS = 60
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
        assert told["services"] == ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
                                    "grpc.reflection.v1alpha.ServerReflection", "pb.gubernator.V1"]
        assert told["methods"] == ["Check", "Watch", "ServerReflectionInfo", "ServerReflectionInfo", "GetRateLimits",
                                   "HealthCheck", "LiveCheck"]
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


# Connections with a hundred streams each at a time: all are answered, with 200 each.
def test_h2load_is_answered_by_stream(single, tmp_path, measured):
    body = tmp_path / "body"
    body.write_bytes(bytes(5))
    done = subprocess.run(["h2load", "-n", "100000", "-c", "8", "-m", "100", "-d", str(body), "-H",
                           "content-type: application/grpc", f"http://127.0.0.1:{single[0].port + 5}{CHECK}"],
                          capture_output=True, text=True, check=True, timeout=scaled(120))
    assert "100000 succeeded, 0 failed, 0 errored" in done.stdout
    measured("requests of gRPC a second, as h2load has them", done.stdout.split(" req/s")[0].split()[-1])
