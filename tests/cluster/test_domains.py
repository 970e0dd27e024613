"""Files of envoyproxy/ratelimit as a cluster's rules: applied, compared, rolled back, reloaded, explained."""

import json
import signal

from harness import Command, wait_for

SHOP = """\
domain: shop
descriptors:
  - key: path
    value: /cart
    rate_limit: {{unit: Minute, requests_per_unit: {cart}}}
  - key: path
    value: "/img-*"
    share_threshold: yes
    rate_limit: {{unit: day, requests_per_unit: 1_000}}
    descriptors:
      - key: user
        rate_limit: {{unlimited: true}}
"""

SEARCH = """\
domain: search
descriptors:
  - key: user
    rate_limit: {unit: week, requests_per_unit: 7}
"""


# Applied as they are, with the difference, which counts stay, a history, and a way back.
def test_files_are_applied_compared_and_rolled_back(new_cluster, tmp_path):
    cluster = new_cluster(2).start()
    path = tmp_path / "shop.yaml"
    path.write_text(SHOP.format(cart=5))
    done = Command("rules", "apply", str(path), "--yes", endpoints=cluster.endpoints)
    assert done.code == 0, done
    names = {"shop:path=/cart", "shop:path=/img-*", "shop:path=/img-*,user"}
    wait_for(lambda: {rule["name"] for rule in cluster[1].admin("rules.list")} == names, 30, "each limit is a rule")
    path.write_text(SHOP.format(cart=9) + "---\n" + SEARCH)
    done = Command("rules", "diff", str(path), endpoints=cluster.endpoints)
    assert done.code == 0 and "rules: 1 added, 0 removed, 1 changed" in done.output, done
    assert "shop:path=/cart: the count of 9/m fixed_window stays" in done.output, done
    assert Command("rules", "apply", str(path), "--yes", endpoints=cluster.endpoints).code == 0
    shown = Command("rules", "show", "search:user", endpoints=cluster.endpoints)
    assert json.loads(shown.output)["domains"][0]["domain"] == "search", shown
    assert Command("rules", "show", endpoints=cluster.endpoints).output == path.read_text()
    versions = json.loads(Command("rules", "history", "-o", "json", endpoints=cluster.endpoints).output)
    first = min(row["version"] for row in versions)
    assert Command("rules", "rollback", str(first), "--yes", endpoints=cluster.endpoints).code == 0
    wait_for(lambda: {rule["name"] for rule in cluster[0].admin("rules.list")} == names, 30, "the first version is back")


# What a descriptor meets is told by the rules in force, or by a file.
def test_a_descriptor_is_explained(new_cluster, tmp_path):
    cluster = new_cluster(1).start()
    path = tmp_path / "shop.yaml"
    path.write_text(SHOP.format(cart=5))
    assert Command("rules", "apply", str(path), "--yes", endpoints=cluster.endpoints).code == 0
    for where in ({"endpoints": cluster.endpoints}, {}):
        given = [] if where else ["--rules", str(path)]
        done = Command("rules", "explain", "--domain", "shop", "--descriptor", "path=/img-7", *given, "-o", "json", **where)
        (row,) = done.rows
        assert (row["match"], row["rule"], row["limit"], row["counted_by"], row["counter"]) == (
            "limited", "shop:path=/img-*", "1000/d", "path=/img-*", "shop.path_/img-*"), done
        assert row["levels"] == [{"entry": "path=/img-7", "met": "path=/img-*", "by": "wildcard"}]
    done = Command("rules", "explain", "--domain", "shop", "--descriptor", "path=/img-7,user=a\\,b", "--rules", str(path),
                   "-o", "json")
    assert done.rows[0]["match"] == "unlimited" and done.rows[0]["levels"][1]["entry"] == "user=a\\,b", done
    done = Command("rules", "explain", "--domain", "shop", "--descriptor", "path", "--rules", str(path))
    assert done.code == 3 and "found entry 1 without '='" in done.error, done
    done = Command("rules", "explain", "--domain", "nobody", "--descriptor", "a=b", "--rules", str(path), "-o", "json")
    assert done.rows[0]["match"] == "no_domain", done


# One document of all files, which means what they mean; errors name the file.
def test_files_are_imported_as_a_document(tmp_path):
    shop, search = tmp_path / "shop.yaml", tmp_path / "search.yml"
    shop.write_text(SHOP.format(cart=5))
    search.write_text(SEARCH)
    done = Command("rules", "import", "envoy", str(shop), str(search))
    assert done.code == 0, done
    ours = tmp_path / "ours"
    ours.write_text(done.output)
    verdicts = [Command("rules", "validate", str(which), "-o", "json").rows[0] for which in (ours, tmp_path)]
    assert verdicts[0]["rules"] == 4
    done = Command("rules", "import", "envoy", str(tmp_path), "--charge", "all")
    assert done.code == 0 and "charge: all" in done.output, done
    search.write_text("domain: shop\ndescriptors: [{key: user}, {key: path, value: /cart}]\n")
    done = Command("rules", "import", "envoy", str(tmp_path))
    assert done.code == 3 and done.error.startswith(f"{shop}:1:9: domain: found \"shop\" a second time"), done
    done = Command("rules", "import", "envoy", str(search), str(shop), "--merge")
    assert done.code == 3 and done.error.startswith(f"{shop}:3:5: descriptor: found \"/cart\" a second time"), done
    search.write_text("domain: shop\ndescriptors: [{key: user}]\n")
    done = Command("rules", "import", "envoy", str(search), str(shop), "--merge")
    assert done.code == 0 and done.output.count("domain:") == 1, done


# A directory is the rules: what is wrong is told with its file, and changes nothing; SIGHUP reads it again.
def test_a_directory_of_files_is_reloaded(new_cluster, tmp_path):
    rules = tmp_path / "config"
    rules.mkdir()
    (rules / "shop.yaml").write_text(SHOP.format(cart=5))
    (rules / ".search.yaml").write_text("nonsense: [")
    cluster = new_cluster(1, "--rules", str(rules)).start()
    node = cluster[0]
    wait_for(lambda: "are in force: 3" in node.log(), 30, "the directory is the cluster's rules")
    (rules / "search.yaml").write_text(SEARCH + "  - key: user\n")
    node.signal(signal.SIGHUP)
    wait_for(lambda: f"rules not reloaded: {rules}/search.yaml:5:5: descriptor: found" in node.log(), 30, "it says where")
    (rules / "search.yaml").write_text(SEARCH)
    node.signal(signal.SIGHUP)
    wait_for(lambda: "are in force: 4" in node.log(), 30, "both files are in force")
    with node.client() as client:  # attributes never meet a descriptor
        assert client.rules({"path": "/cart", "descriptor": "path=/cart"}).outcome == "no_rule"
