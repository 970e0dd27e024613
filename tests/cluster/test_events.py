"""What came about, told by a node: to the command line, as JSON, and as a stream of server-sent events."""

import contextlib
import json
import socket

import pytest

from harness import Cluster, Command, Http, scaled, wait_for

STREAMS_MAX = 32
RULES = "rules:\n  - {name: one, match: {api: /x}, key: [user], limits: [{rate: 5/h}]}\n"


@pytest.fixture(scope="module")
def trio(tmp_path_factory):
    folder = tmp_path_factory.mktemp("events")
    (folder / "rules.yaml").write_text(RULES)
    with Cluster(folder, 3, "--rules", str(folder / "rules.yaml")) as cluster:
        yield cluster.start()


def listed(node, path="/v1/events"):
    with Http(node) as http:
        return http.ask("GET", path, Authorization=f"Bearer {node.token()}").said


class Stream:
    """The events that a node streams, as a browser's EventSource reads them."""

    def __init__(self, node, path="/v1/events", version="1.1", **headers):
        self.socket = socket.create_connection((node.host, node.port + 4), scaled(30))
        fields = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        self.socket.sendall(f"GET {path} HTTP/{version}\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
                            f"Authorization: Bearer {node.token()}\r\n{fields}\r\n".encode())
        self.file = self.socket.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.headers = {}
        while (line := self.file.readline().strip()):
            name, value = line.decode().split(": ", 1)
            self.headers[name] = value
        self.chunked = self.headers.get("Transfer-Encoding") == "chunked"
        self.left = b""

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.socket.close()
        self.file.close()

    def more(self):
        """The next chunk, b"" at the end."""
        if not self.chunked:
            return self.file.readline()
        size = int(self.file.readline() or b"0", 16)
        data = self.file.read(size)
        assert len(data) == size and self.file.readline() == b"\r\n"
        return data

    def event(self):
        """The next event: (id, kind, data); None at the end of the stream."""
        while b"\n\n" not in self.left:
            data = self.more()
            if not data:
                return None
            self.left += data
        text, self.left = self.left.split(b"\n\n", 1)
        fields = dict(line.split(b": ", 1) for line in text.split(b"\n") if line != b":")
        if not fields:
            return self.event()
        return int(fields.get(b"id", b"0")), fields[b"event"].decode(), json.loads(fields[b"data"])


def test_all_three_tell_the_same_events_in_their_order(trio):
    told = listed(trio[0])
    says = [event["says"] for event in told["events"]]
    assert any(line.startswith("rules of version") for line in says)
    assert any("settled; in it are" in line for line in says)
    ids = [event["id"] for event in told["events"]]
    assert ids == sorted(set(ids)) and ids[-1] <= told["last"] and not told["missed"]
    lines = Command("events", endpoints=[trio[0].endpoint]).output.splitlines()
    assert [line.split("  ", 1) for line in lines[:2]] == [
        [event["time"], event["says"]] for event in told["events"][:2]]
    assert Command("-o", "json", "events", endpoints=[trio[0].endpoint]).rows[:len(says)] == told["events"]
    with Stream(trio[0]) as stream:
        assert stream.status == 200 and stream.headers["Content-Type"] == "text/event-stream"
        assert stream.headers["X-Accel-Buffering"] == "no" and stream.headers["Cache-Control"] == "no-store"
        assert [stream.event() for _ in ids] == [(event["id"], event["kind"], event) for event in told["events"]]


def test_who_comes_again_goes_on_behind_the_event_it_was_told_last(trio):
    told = listed(trio[0])
    third = told["events"][2]["id"]
    assert listed(trio[0], f"/v1/events?after={third}")["events"][:1] == told["events"][3:4]
    for stream in (Stream(trio[0], Last_Event_ID=third), Stream(trio[0], f"/v1/events?after={third}"),
                   Stream(trio[0], "/v1/events?after=1", Last_Event_ID=third)):
        with stream:
            assert stream.event()[2] == told["events"][3]


def test_what_names_no_event_is_refused(trio):
    for wrong in ("x", "-1", "1e3", "99999999999999999999"):
        with Stream(trio[0], Last_Event_ID=wrong) as stream:
            assert stream.status == 400
        with Stream(trio[0], f"/v1/events?after={wrong}") as stream:
            assert stream.status == 400
    with Stream(trio[0], "/v1/events?topics=page") as stream:
        assert stream.status == 400


def test_a_death_is_told_when_it_begins_and_when_it_is_over(trio):
    gone = trio[2]
    with Stream(trio[0], Last_Event_ID=listed(trio[0])["last"]) as stream, \
            Stream(trio[0], version="1.0", Last_Event_ID=listed(trio[0])["last"]) as plain:
        assert plain.headers.get("Connection") == "close" and not plain.chunked
        gone.kill()
        for source in (stream, plain):
            while (event := source.event())[2]["says"] != f"{gone.name} is not alive":
                pass
            assert event[1] == "begun" and event[2]["grave"] and event[2]["code"] in ("suspect", "not_alive")
        gone.start()
        while (event := stream.event())[1:2] != ("over",) or event[2]["says"] != f"{gone.name} is not alive":
            pass
        assert event[2]["lasted_ms"] > 0
    shown = Command("events", endpoints=[trio[0].endpoint]).output
    assert f"begun: {gone.name} is not alive" in shown and f": {gone.name} is not alive" in shown
    wait_for(lambda: trio[0].admin("status")["healthy"], 30, "all is well again")


def test_there_are_as_many_streams_as_there_are_places_and_one_that_ends_leaves_its_own(trio):
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(Stream(trio[1])) for _ in range(STREAMS_MAX)]
        assert all(stream.status == 200 for stream in streams)
        with Stream(trio[1]) as more:
            assert more.status == 503 and "Retry-After" in more.headers
        with Http(trio[1]) as http: # nobody else minds
            assert http.post("/v1/check", {"attributes": {"api": "/x", "user": "ada"}}).status == 200
        streams[3].__exit__()
        def taken():
            with Stream(trio[1]) as stream:
                return stream.status == 200
        wait_for(taken, 30, "the place is free again")
    assert trio[1].admin("status")["http"]["streams_refused"] >= 1


def test_a_node_that_stops_ends_its_streams(tmp_path):
    with Cluster(tmp_path, 1) as cluster:
        cluster.start()
        with Stream(cluster[0]) as stream:
            assert stream.event() is not None
            cluster[0].stop()
            while stream.event() is not None:
                pass
            assert stream.file.read() == b""
