"""The configuration files of deploy/multi-region are what nodes, kubectl and the command line accept."""

import json
import os
import re
import shutil
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("TIDEGATE_BUILD", "build"))
REGIONAL = os.path.join(ROOT, "deploy", "multi-region")
RULES = os.path.join(REGIONAL, "kubernetes", "base", "rules.yaml")
REGIONS = ["eu", "us", "ap"]


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


def check_config(tmp_path, text, *arguments):
    """What tidegated says of a configuration, with the rules beside it."""
    file = tmp_path / "tidegated.yaml"
    file.write_text(text.replace("/etc/tidegate/rules.yaml", RULES))
    done = run(os.path.join(BUILD, "tidegated"), "--config", str(file), *arguments, "--check-config")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("region", REGIONS)
def test_a_node_accepts_the_configuration_of_each_region(tmp_path, region):
    with open(os.path.join(REGIONAL, "systemd", f"{region}-1.yaml"), encoding="utf-8") as file:
        check_config(tmp_path, file.read())


def test_the_rules_of_the_regions_are_good():
    done = run(os.path.join(BUILD, "tidegate"), "rules", "validate", RULES)
    assert done.returncode == 0, done.stdout + done.stderr


# The overlays as kubectl renders them: each object is one, and the node is started by flags that it knows.
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is missing")
@pytest.mark.parametrize("region", REGIONS)
def test_kubectl_renders_the_overlay_of_each_region(tmp_path, region):
    done = run("kubectl", "kustomize", os.path.join(REGIONAL, "kubernetes", "overlays", region))
    assert done.returncode == 0, done.stderr
    objects = done.stdout.split("\n---\n")
    kinds = sorted(re.search(r"^kind: (\w+)$", each, re.MULTILINE)[1] for each in objects)
    assert kinds == ["ConfigMap", "ConfigMap", "PodDisruptionBudget", "Service", "Service", "StatefulSet"]
    nodes = next(each for each in objects if "kind: StatefulSet" in each)
    arguments = re.findall(r"^ +- (--\S+)$", nodes, re.MULTILINE)
    values = {"$(POD)": "tidegate-0", "$(REGION)": region, "$(DOMAIN)": f"nodes.{region}.example"}
    for name, value in values.items():
        arguments = [argument.replace(name, value) for argument in arguments]
    arguments = [argument for argument in arguments if not argument.startswith("--config")]
    assert f"--region={region}" in arguments and not any("$(" in argument for argument in arguments), json.dumps(arguments)
    with open(os.path.join(REGIONAL, "kubernetes", "overlays", region, "tidegated.yaml"), encoding="utf-8") as file:
        check_config(tmp_path, file.read(), *arguments)
