"""The locked requirements of the RPMs fit those of the project."""

import configparser
import re
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]


def pinned(name):
    """Return the entries of a file of locked requirements by name, each with an exact version and hashes."""
    entries = re.findall(r"(?m)^\w[^\\\n]*(?:\\\n[^\\\n]*)*", (HERE / "rpm" / name).read_text())
    assert all(re.match(r"\S+==\S+ \\\n +--hash=sha256:", entry) for entry in entries)
    return {entry.partition("==")[0].lower(): entry for entry in entries}


def test_the_bundled_libraries_cover_the_requirements_with_exact_versions_and_hashes():
    settings = configparser.ConfigParser()
    settings.read(HERE / "setup.cfg")
    needed = {
        key: {line.split()[0].lower() for line in settings[section][key].strip().splitlines()}
        for section, key in (
            ("options", "install_requires"),
            ("options.extras_require", "server"),
            ("options.extras_require", "pools"),
        )
    }
    hosts, server, pools = (pinned(f"requirements{suffix}.txt") for suffix in ("", "-server", "-pools"))
    assert needed["install_requires"] <= hosts.keys()
    assert needed["server"] <= server.keys()
    assert needed["pools"] <= pools.keys()
    assert hosts.keys() & (server | pools).keys() == set()
    for name in server.keys() & pools.keys():
        assert server[name] == pools[name], "the spec finds the libraries of both packages by equal entries"
