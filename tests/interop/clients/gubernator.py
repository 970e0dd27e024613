"""The messages and the stub that Gubernator has for Python ask nodes. Usage: PROGRAM ADDRESS...; prints what it saw as JSON."""

import json
import sys
import uuid

import grpc
import gubernator_pb2 as pb
from gubernator_pb2_grpc import V1Stub

MINUTE = 60000  # as its package has it


def made(**fields):
    return pb.RateLimitReq(**{"name": "test-ns", "unique_key": f"domain-id-{uuid.uuid4()}", "hits": 1, "limit": 10,
                              "duration": 10 * MINUTE, "algorithm": pb.TOKEN_BUCKET, **fields})


def short(said):
    return said.error or f"{pb.Status.Name(said.status)} {said.remaining}/{said.limit}"


def failure(call):
    try:
        call()
    except grpc.RpcError as error:
        return f"{error.code().name}: {error.details()}"
    return "answered"


def see(stubs):
    def ask(at, *items):
        return stubs[at % len(stubs)].GetRateLimits(pb.GetRateLimitsReq(requests=items), timeout=30).responses

    request = pb.GetRateLimitsReq()  # as its test has it
    limit = request.requests.add()
    limit.CopyFrom(made())
    first = stubs[0].GetRateLimits(request, timeout=30).responses[0]
    both = {pb.Algorithm.Name(kind): made(algorithm=kind, hits=3) for kind in pb.Algorithm.values()}
    far = stubs[1].GetRateLimits.future(pb.GetRateLimitsReq(requests=[limit]), timeout=30)
    return {
        "first": [short(first), sorted(first.metadata), first.reset_time > 0],
        "again": short(far.result().responses[0]),
        **{name: [short(ask(at, one)[0]) for at in range(4)] for name, one in both.items()},
        "items": [short(one) for one in ask(1, made(), made(name=""), made(unique_key=""), made(hits=11), made(algorithm=7),
                                            made(metadata={"a": "b"}, created_at=1), made(behavior=pb.GLOBAL | pb.MULTI_REGION))],
        "many": failure(lambda: ask(0, *[made()] * 1001)),
        "health": [(one.status, one.message, one.peer_count) for one in
                   (stub.HealthCheck(pb.HealthCheckReq(), timeout=30) for stub in stubs)],
        "live": [str(stub.LiveCheck(pb.LiveCheckReq(), timeout=30)) for stub in stubs],
    }


channels = [grpc.insecure_channel(address) for address in sys.argv[1:]]
print(json.dumps(see([V1Stub(channel) for channel in channels])))
