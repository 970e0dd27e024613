"""The JSON Schema of rules files: valid is what nodes accept, and what is wrong in its shape is not.

The rules are those that the tests of this tree hold, good and bad: texts of unit tests (as the preprocessor sees them), of
cluster tests, of the fuzz corpus, and of documents. `tidegate rules validate` says which are good, and why others are not."""

import ast
import functools
import json
import os
import pathlib
import re
import subprocess

import jsonschema
import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TIDEGATE_BUILD", str(ROOT / "build"))).resolve()


# Read when a test asks: builds of the sanitizers have no documents.
@functools.cache
def schema():
    return json.loads((BUILD / "docs" / "tidegate-rules.schema.json").read_text())


@functools.cache
def validator():
    return jsonschema.Draft7Validator(schema())


# Refusals that are about one key alone: its name, its type, its range.
OF_SHAPE = re.compile(
    r"found unknown key|expected a mapping$|expected a list of \d+ to \d+ elements$|expected true or false$"
    r"|expected a whole number from|expected a text of \d+ to \d+ bytes$|expected an attribute name"
    r"|expected 1% to \d+%$|expected a factor above 1x|expected a number above 0 and at most 1"
    r"|found \d+ keys; expected|found (soft|elastic) without its|to have one$"
    r"|unknown unit|expected (allow, deny|throttle, allow|critical, normal|one, any|region, global|skip, deny|hard, soft"
    r"|open, closed|epoch, first|token_bucket, fixed_window|verbatim, address)"
    r'|^(file|pools|tiers|.*[.](soft|elastic|local)): found no key|^rule: found no key "name"|^limit: found no key')


class Loader(yaml.SafeLoader):
    """YAML as the core schema of version 1.2 has it: `yes`, `5/h` and `2026-12-31` are texts."""

    def construct_mapping(self, node, deep=False):
        return {key.value if isinstance(key, yaml.ScalarNode) else "": self.construct_object(value, deep=True)
                for key, value in node.value}


Loader.yaml_implicit_resolvers = {}
Loader.add_constructor("tag:yaml.org,2002:map", Loader.construct_mapping)
Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))
for kind, pattern in [("null", r"(~|null|Null|NULL|)$"), ("bool", r"(true|false)$"), ("int", r"[-+]?[0-9]+$"),
                      ("float", r"[-+]?[0-9]*[.][0-9]+$")]:
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(pattern), None)


def texts_of_unit_tests():
    """Adjacent string literals, behind the preprocessor: rows of tables are made by macros."""
    literal = r'"(?:\\.|[^"\\])*"'
    for path in sorted((ROOT / "tests" / "unit").glob("*.c")):
        if "rules:" not in path.read_text():
            continue
        source = subprocess.run(["cc", "-E", "-P", "-D_GNU_SOURCE", f"-I{ROOT}", path], capture_output=True, text=True,
                                check=True).stdout.replace("'\"'", "'q'")  # a character begins no literal
        for run in re.findall(rf"{literal}(?:\s*{literal})*", source):
            text = "".join(ast.literal_eval("b" + part).decode("latin-1") for part in re.findall(literal, run))
            yield text.encode("latin-1")


def texts_of_cluster_tests():
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value:
                yield node.value.encode()


def texts_of_files():
    yield from (path.read_bytes() for path in sorted((ROOT / "tests" / "fuzz" / "corpus" / "fuzz_rules").iterdir()))
    yield from (path.read_bytes() for path in sorted(ROOT.rglob("*.yaml")) if "build" not in path.relative_to(ROOT).parts)
    for path in sorted(ROOT.rglob("*.md")):
        yield from (block.encode() for block in re.findall(r"^```[a-z]*\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL))
    page = (BUILD / "docs" / "reference" / "tidegate-rules.md").read_text()
    yield re.search(r"## Example\n\n```\n(.*?)```", page, re.DOTALL)[1].encode()


def is_candidate(text):
    return len(text) < 65536 and b"%" + b"s" not in text and (b"rules" in text or b'"api"' in text) and (b":" in text)


def judge(text):
    """The refusals of the command line; none: the rules are good."""
    done = subprocess.run([BUILD / "tidegate", "rules", "validate", "-"], input=text, capture_output=True, check=False, timeout=60)
    return [line for line in re.findall(r"^-:\d+:\d+: (.*)$", done.stderr.decode(errors="replace"), re.MULTILINE)] \
        if done.returncode else []


def load(text):
    """The rules as data; None where PyYAML takes them for no YAML (an anchor that is set twice)."""
    try:
        return yaml.load(text.decode(), Loader)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError):
        return None


@pytest.fixture(scope="module")
def judged():
    texts = {text for source in (texts_of_unit_tests(), texts_of_cluster_tests(), texts_of_files())
             for text in source if is_candidate(text)}
    return [(text, judge(text)) for text in sorted(texts)]


def test_the_schema_is_one():
    jsonschema.Draft7Validator.check_schema(schema())


def test_rules_that_nodes_accept_are_valid(judged):
    good = [text for text, refusals in judged if not refusals]
    unread = [text for text in good if load(text) is None]
    assert len(good) > 100 and len(unread) < 3
    for text in set(good) - set(unread):
        errors = [f"{'/'.join(map(str, error.absolute_path))}: {error.message[:200]}" for error in validator().iter_errors(load(text))]
        assert not errors, f"{text.decode(errors='replace')}\n{errors}"


def test_rules_that_are_wrong_in_their_shape_are_not_valid(judged):
    wrong = 0
    for text, refusals in judged:
        of_shape = [refusal for refusal in refusals if OF_SHAPE.search(refusal)]
        data = load(text) if of_shape else None
        if data is None:
            continue
        wrong += 1
        assert not validator().is_valid(data), f"{text.decode(errors='replace')}\n{of_shape}"
    assert wrong > 100


def test_every_example_of_a_key_is_valid():
    """Those of the reference, each by the definition of its mapping."""
    page = (BUILD / "docs" / "reference" / "tidegate-rules.md").read_text()
    sections = {part.split("\n")[0]: part for part in page.split("\n## ")}
    seen = 0
    for definition in schema()["definitions"].values():
        section = re.sub(r"\n  +", " ", sections[definition["title"]])
        examples = dict(re.findall(r"^- `([a-z0-9_-]+)`: .* Example: `[a-z0-9_-]+: (.*)`$", section, re.MULTILINE))
        assert list(examples) == list(definition["properties"])
        for key, example in examples.items():
            part = {**definition["properties"][key], "definitions": schema()["definitions"]}
            assert jsonschema.Draft7Validator(part).is_valid(load(example.encode())), f"{definition['title']}: {key}: {example}"
            seen += 1
    assert seen > 50
