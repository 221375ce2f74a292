"""The playbooks of the manual make and remove real machines; a machine that fails does not affect the others."""

from __future__ import annotations

import pytest

from support.manual import MANUAL
from support.pools.machines import DataCentre
from zkdeployment.base.machine import process
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.reading import read_documents
from zkdeployment.pools.documents import POOLS
from zkdeployment.pools.mechanisms.ansible import AnsiblePlaybooks, SshTenantKeys

EXAMPLES = MANUAL / "examples" / "pools"


@pytest.fixture
def centre(tmp_path):
    built = DataCentre.build(tmp_path / "centre")
    yield built
    for name in built.machines():
        built.delete(name)


@pytest.fixture
def pool(centre):
    """Return the pool el9 of the manual with its playbooks, and the program of a data centre."""
    text = (EXAMPLES / "pools.yaml").read_text(encoding="utf-8")
    text = text.replace("/srv/playbooks", str(EXAMPLES)).replace("/usr/local/bin/machines", str(centre.program))
    documents = read_documents([SourceFile("pools.yaml", text.encode())])
    assert documents.problems == ()
    (configuration,) = documents.of(POOLS).values()
    return configuration.pools["el9"]


@pytest.mark.nightly
def test_the_playbooks_of_the_manual_make_and_remove_machines(centre, pool):
    playbooks, mechanism = AnsiblePlaybooks(), pool.mechanism
    process.run([str(centre.program), "create", "node-7", "made-earlier"]).check()
    centre.damage("node-9")
    nodes = [{"id": number, "hostname": None, "ipaddr": None} for number in (7, 8, 9)]
    made = playbooks.run(mechanism, mechanism.provision, pool.values, nodes)
    assert made == {
        "nodes": [
            {"hostname": "node-7.el9-x86_64.example.com", "ipaddr": "127.0.41.8"},
            {"hostname": "node-8.el9-x86_64.example.com", "ipaddr": "127.0.41.9"},
            {},
        ]
    }
    keys = SshTenantKeys(key=centre.key, configuration=centre.configuration)
    keys.remove("127.0.41.8", ())
    keys.remove("127.0.41.9", ())

    centre.damage("node-7")
    nodes = [
        {**node, "data": {"provision": result}} for node, result in zip(nodes[:2], made["nodes"], strict=False)
    ]
    removed = playbooks.run(mechanism, mechanism.deprovision, pool.values, nodes)
    assert removed == {"nodes": [made["nodes"][1]]}
    assert centre.machines() == {"node-7"}
