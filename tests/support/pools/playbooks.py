"""Real playbooks that make and remove the nodes of a pool: the machines are those of ``ssh_nodes``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from support.pools.ssh_nodes import SshNodes

#: A machine exists while its file does. The machine with the id N has the address with the number N.
_PROVISION = """
- hosts: localhost
  gather_facts: false
  tasks:
    - file: {path: "{{ place }}/machine-{{ duffy_in.nodes[0].id }}", state: touch}
    - set_fact:
        duffy_out:
          nodes:
            - ipaddr: "{{ addresses[duffy_in.nodes[0].id | int % addresses | length] }}"
              machine: "{{ duffy_in.nodes[0].id }}"
"""

#: Waits for the file ``gate``.
_DEPROVISION = """
- hosts: localhost
  gather_facts: false
  tasks:
    - wait_for: {path: "{{ place }}/gate", sleep: 1, timeout: 600}
    - file: {path: "{{ place }}/machine-{{ duffy_in.nodes[0].id }}", state: absent}
    - set_fact: {duffy_out: {nodes: [{machine: "{{ duffy_in.nodes[0].data.provision.machine }}"}]}}
"""


def write_playbooks(place: Path, nodes: SshNodes) -> dict[str, Any]:
    """Write the playbooks and the gate into a directory; return the mechanism of a pool that uses them."""
    place.mkdir()
    (place / "provision.yml").write_text(_PROVISION)
    (place / "deprovision.yml").write_text(_DEPROVISION)
    (place / "gate").touch()
    variables = {"place": str(place), "addresses": [node.address for node in nodes.nodes]}
    ansible = {
        "topdir": str(place),
        "extra-vars": variables,
        "provision": {"playbook": "provision.yml"},
        "deprovision": {"playbook": "deprovision.yml"},
    }
    return {"type": "ansible", "ansible": ansible}


def made_machines(place: Path) -> list[int]:
    """Return the ids of the machines that exist."""
    return sorted(int(path.name.removeprefix("machine-")) for path in place.glob("machine-*"))
