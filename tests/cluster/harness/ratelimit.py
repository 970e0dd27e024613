"""Envoy's rate limit service as a client has it: the node's own .proto files, and Debian's gRPC."""

import functools
import importlib
import os
import subprocess
import sys
import tempfile

import grpc

PROTO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "node", "gateway", "grpc", "proto")
FILES = ("wrappers", "header_value", "ratelimit_unit", "ratelimit_descriptor", "ratelimit", "kuadrant")
SHOULD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
CHECK = "/kuadrant.service.ratelimit.v1.RateLimitService/CheckRateLimit"
REPORT = "/kuadrant.service.ratelimit.v1.RateLimitService/Report"
OK, OVER = 1, 2


@functools.cache
def messages():
    """The module of each file."""
    folder = tempfile.mkdtemp()
    subprocess.run(["protoc", f"--proto_path={PROTO}", f"--python_out={folder}", *[f"{name}.proto" for name in FILES]],
                   check=True)
    sys.path.insert(0, folder)
    try:
        return {name: importlib.import_module(f"{name}_pb2") for name in FILES}
    finally:
        sys.path.remove(folder)


def descriptor(*entries, hits=None, refund=False, limit=None):
    """Of entries such as ("user", "ada"); `limit` is (requests, unit, multiplier)."""
    kind = messages()["ratelimit_descriptor"].RateLimitDescriptor
    out = kind(entries=[kind.Entry(key=key, value=value) for key, value in entries], is_negative_hits=refund)
    if hits is not None:
        out.hits_addend.value = hits
    if limit is not None:
        out.limit.requests_per_unit, out.limit.unit = limit[:2]
        if len(limit) > 2:
            out.limit.unit_multiplier.value = limit[2]
    return out


class RateLimit:
    """A channel to one node."""

    def __init__(self, port, token=None):
        self.metadata = None if token is None else [("authorization", f"Bearer {token}")]
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)])
        grpc.channel_ready_future(self.channel).result(timeout=20)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def call(self, domain, *descriptors, hits=0, method=SHOULD, timeout_s=5):
        """The answer to come."""
        kinds = messages()["ratelimit"]
        ask = self.channel.unary_unary(method, kinds.RateLimitRequest.SerializeToString,
                                       kinds.RateLimitResponse.FromString)
        return ask.future(kinds.RateLimitRequest(domain=domain, descriptors=descriptors, hits_addend=hits),
                          timeout=timeout_s, metadata=self.metadata)

    def ask(self, domain, *descriptors, **how):
        """The response."""
        return self.call(domain, *descriptors, **how).result()

    def kuadrant(self, method, **fields):
        """The answer of Reserve or Commit."""
        kinds = messages()["kuadrant"]
        ask = self.channel.unary_unary(f"/kuadrant.service.ratelimit.v1.RateLimitService/{method}",
                                       getattr(kinds, method + "Request").SerializeToString,
                                       getattr(kinds, method + "Response").FromString)
        return ask(getattr(kinds, method + "Request")(**fields), timeout=5)

    def refusal(self, domain, *descriptors, **how):
        """(status, sentence) of what is refused."""
        try:
            answer = self.ask(domain, *descriptors, **how)
        except grpc.RpcError as error:
            return error.code().name, error.details()
        raise AssertionError(f"it was answered: {answer}")
