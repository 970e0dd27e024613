"""The document at /v1/openapi.json, held against a living node by schemathesis, and against its specification."""

import json
import os
import subprocess

import pytest
from kits import pip

from harness import Http, scaled

SECONDS = 120
PACKAGES = ("schemathesis==4.32.5", "openapi-spec-validator==0.9.0")
ENDS = ("/v1/drain", "/v1/leave")  # of these the node is gone
RULES = """\
rules:
  - {name: one, match: {api: /*}, key: [ip], limits: [{rate: 1000000/s}]}
  - {name: two, match: {user: "*"}, key: [user], limits: [{rate: 3/h}]}
"""


@pytest.fixture(scope="module")
def programs():
    return os.path.join(pip("openapi", *PACKAGES), "bin")


def test_the_document_is_valid(single, programs, tmp_path):
    with Http(single[0]) as http:
        answer = http.ask("GET", "/v1/openapi.json")
    assert answer.status == 200 and answer.said["openapi"] == "3.1.0"
    (tmp_path / "openapi.json").write_text(json.dumps(answer.said))
    subprocess.run([os.path.join(programs, "openapi-spec-validator"), tmp_path / "openapi.json"], check=True)


def test_the_node_does_what_the_document_says(new_cluster, programs, tmp_path):
    """No 5xx, no status, field or type that is not told: of what fits the schemas, and of what does not."""
    (tmp_path / "rules.yaml").write_text(RULES)
    node = new_cluster(1, "--rules", str(tmp_path / "rules.yaml")).start()[0]
    # A schema of JSON does not say which windows and bursts go together, and /v1/auth takes methods of any name.
    done = subprocess.run([os.path.join(programs, "schemathesis"), "run",
                           f"http://127.0.0.1:{node.port + 4}/v1/openapi.json", "--max-examples", "60", "--exclude-checks",
                           "positive_data_acceptance,unsupported_method", "--no-color",
                           "--header", f"Authorization: Bearer {node.token()}",
                           *(word for path in ENDS for word in ("--exclude-path", path))],
                          cwd=tmp_path, capture_output=True, text=True, timeout=scaled(300), check=False)
    found = [line[:400] for line in done.stdout.partition(" FAILURES ")[2].partition(" WARNINGS ")[0].splitlines()]
    assert done.returncode == 0, "\n".join(found[:80]) + done.stdout[-1500:] + done.stderr[-1000:]
    figures = node.fresh_status()["http"]
    assert figures["answered"] > 500 and figures["answered_5xx"] == 0
    assert figures["answered_4xx"] < figures["answered"]
