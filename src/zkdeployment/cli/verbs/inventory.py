"""``zkdeployment inventory``: the fleet as a dynamic inventory of Ansible."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zkdeployment.cli.options import emit, zookeeper_options
from zkdeployment.fleet.operator import open_operator
from zkdeployment.fleet.views.ansible_inventory import ansible_inventory
from zkdeployment.fleet.views.status import fleet_status

if TYPE_CHECKING:
    from zkdeployment.zookeeper.servers import Servers


@click.command(name="inventory")
@click.option("--list", "lists", is_flag=True, help="Print all groups, and the variables of all hosts.")
@click.option("--host", metavar="HOST", help="Print the variables of one host, by name or id.")
@zookeeper_options
def command(connection: Servers, host: str | None, *, lists: bool) -> None:
    """Print the fleet as JSON, in the form of a dynamic inventory of Ansible.

    Hosts are in groups by role (role_web), tag (tag_fast), label (label_tier_web), rack (rack_r1), service
    (service_shop_web), state (state_failed) and revision (revision_1f2e3d4c5b6a). Ansible runs
    /usr/share/zkdeployment/etc/ansible/zkdeployment with these options.

    \b
    Example:
      zkdeployment inventory --list
      zkdeployment inventory --host app1.example.com
    """
    if lists == (host is not None):
        raise click.UsageError("expected either --list or --host HOST")
    with open_operator(connection) as operator:
        snapshot, targets = operator.fleet.snapshot(), operator.fleet.targets()
    inventory = ansible_inventory(fleet_status(snapshot), snapshot, targets)
    emit(inventory.to_json() if host is None else inventory.host(host), "json")
