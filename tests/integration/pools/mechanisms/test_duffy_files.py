"""Unchanged files that were written for Duffy: its configuration is linted, and its playbooks run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.waiting import ManualClock
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.reading import read_documents
from zkdeployment.pools.documents import POOLS
from zkdeployment.pools.mechanisms.ansible import AnsibleNodes, AnsiblePlaybooks
from zkdeployment.pools.rules.node import NodeEvent
from zkdeployment.pools.rules.work import new_node

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from zkdeployment.pools.documents import PoolConfiguration
    from zkdeployment.pools.rules.node import PoolNode

#: The sections ``defaults`` and ``nodepools``, with everything that Duffy's own example and its comments permit.
CONFIGURATION = """
defaults:
  session-lifetime: "6h"
  session-lifetime-max: "12h"
  node-quota: 10
  retries:
    no-attempts: 5
    delay-min: 0.1
    delay-max: 1.6
    delay-backoff-factor: 2
    delay-add-fuzz: 0.3
nodepools:
  abstract:
    by-ansible:
      mechanism:
        type: "ansible"
        ansible:
          topdir: "PLACE"
          extra-vars:
            nodepool: "{{ name }}"
            template_name: "{{ name }}"
    iron:
      type: "physical"
      extends: "by-ansible"
      reuse-nodes:
        architecture: "{{ architecture }}"
      run-parallel: true
      fill-level: 1
      mechanism:
        ansible:
          provision:
            playbook: "playbooks/iron/provision.yml"
          # optional, or null
          deprovision: ~
    iron-x86_64:
      extends: iron
      fill-level: 5
      architecture: x86_64
    cloud:
      type: "virtual"
      extends: "by-ansible"
      reuse-nodes: false
      run-parallel: false
      mechanism:
        ansible:
          provision:
            extra-vars:
              quantity: "{{ duffy_in.nodes | length }}"
              flavor: "{{ flavor }}"
              template_name: >-
                {% set parts=name.split("-") %}machine-{{ parts[1:] | join("-") }}
              # this text ends with a line end
              motd: |
                hello from {{ name }}
            playbook: "playbooks/cloud/provision.yml"
          deprovision:
            playbook: "playbooks/cloud/deprovision.yml"
            extra-vars: ~
    nothing-set:
      extends: ~
      mechanism: {type: ~, ansible: {topdir: ~, extra-vars: ~, provision: ~, deprovision: ~}}
      fill-level: null
      reuse-nodes: null
      run-parallel: null
  concrete:
    iron-stream9-x86_64:
      extends: "iron-x86_64"
    cloud-stream9-small:
      extends: "cloud"
      fill-level: 2
    attic:
      extends: iron
      fill-level: ~
"""

_IRON = """
- hosts: localhost
  gather_facts: false
  tasks:
    - name: playbooks query results with JMESPath
      command:
        argv: ["{{ ansible_playbook_python }}", -c, "import jmespath; print(jmespath.search('a', {'a': 7}))"]
      register: query
    - set_fact:
        duffy_out:
          nodes:
            - {hostname: "iron{{ duffy_in.nodes[0].id }}.example.com", ipaddr: "192.0.2.{{ query.stdout }}"}
"""

_CLOUD = """
- hosts: localhost
  gather_facts: false
  tasks:
    - set_fact:
        duffy_out:
          nodes:
            - ipaddr: 192.0.2.1
              hostname: one
              seen: ["{{ nodepool }}", "{{ template_name }}", "{{ quantity }}", "{{ flavor }}", "{{ motd }}"]
            - ipaddr: 192.0.2.2
"""

_CLOUD_END = """
- hosts: localhost
  gather_facts: false
  tasks:
    - set_fact:
        duffy_out: {nodes: "{{ duffy_in.nodes | map(attribute='data.provision') | list }}"}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for file, text in (("iron/provision", _IRON), ("cloud/provision", _CLOUD), ("cloud/deprovision", _CLOUD_END)):
        path = tmp_path / "playbooks" / f"{file}.yml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def linted(place: Path) -> PoolConfiguration:
    """Return the pools of the configuration, pasted into a document, which must be without a fault."""
    pasted = CONFIGURATION.replace("PLACE", str(place)).strip().replace("\n", "\n  ")
    text = f"schema: {POOLS.schema}\nmetadata: {{name: pools}}\ndata:\n  {pasted}\n"
    documents = read_documents([SourceFile("pools.yaml", text.encode())])
    assert [problem.message for problem in documents.problems] == []
    (document,) = documents.of(POOLS).values()
    return document


def names(addresses: Any) -> Mapping[str, str]:
    return {address: "two.example.com" for address in addresses if address == "192.0.2.2"}


def facts(nodes: Sequence[PoolNode]) -> list[tuple[str | None, str | None]]:
    return [(node.hostname, node.ipaddr) for node in nodes]


@pytest.mark.nightly
def test_a_configuration_of_duffy_is_linted_and_its_playbooks_run_unchanged(place: Path) -> None:
    pools = linted(place).pools
    assert {name: (pool.fill_level, pool.run_parallel) for name, pool in pools.items()} == {
        "iron-stream9-x86_64": (5, True),
        "cloud-stream9-small": (2, False),
        "attic": (None, True),
    }
    mechanism = AnsibleNodes(AnsiblePlaybooks(), keys=None, clock=ManualClock(), names=names)  # type: ignore[arg-type]
    iron, cloud = pools["iron-stream9-x86_64"], pools["cloud-stream9-small"]
    assert mechanism.reuse_values(iron) == {"architecture": "x86_64"}
    (made,) = mechanism.provision(iron, [new_node(3, iron, 0.0)]).nodes
    assert facts([made]) == [("iron3.example.com", "192.0.2.7")]
    (ended,) = mechanism.deprovision(iron, [made.after(NodeEvent.RELEASED, 0.0)]).nodes
    assert not ended.is_active
    machines = mechanism.provision(cloud, [new_node(1, cloud, 0.0), new_node(2, cloud, 0.0)]).nodes
    assert facts(machines) == [("one", "192.0.2.1"), ("two.example.com", "192.0.2.2")]
    assert machines[0].data["provision"]["seen"] == [
        "cloud-stream9-small",
        "machine-stream9-small",
        "2",
        "",
        "hello from cloud-stream9-small",
    ]
    released = [node.after(NodeEvent.RELEASED, 0.0) for node in machines]
    assert [node.is_active for node in mechanism.deprovision(cloud, released).nodes] == [False, False]
