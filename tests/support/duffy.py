"""The released client of Duffy (``duffy[client]``) as tenants use it, with a configuration file of its own."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.manual import MANUAL
from support.waiting import wait_until
from zkdeployment.base.machine import process

if TYPE_CHECKING:
    from collections.abc import Callable

_EXAMPLE = MANUAL / "examples" / "pools" / "duffy-client.yaml"
_PROGRAM = Path(sys.executable).with_name("duffy")


@dataclass(frozen=True, slots=True)
class DuffyClient:
    """The client with its configuration file."""

    configuration: Path

    @classmethod
    def configured(cls, file: Path, url: str, login: tuple[str, str]) -> DuffyClient:
        """Write the file of the manual with the URL of a service, and the name and the key of a tenant."""
        name, key = login
        text = _EXAMPLE.read_text(encoding="utf-8")
        for example, value in (
            ("https://deploy.example.com", url),
            ("name: ci", f"name: {name}"),
            ("00000000-0000-4000-8000-000000000000", key),
        ):
            assert example in text, f"expected {example} in {_EXAMPLE}"
            text = text.replace(example, value)
        file.write_text(text)
        return cls(file)

    def call(self, *arguments: str) -> Any:
        """Return the answer to a request."""
        return json.loads(self.printed("json", *arguments))

    def printed(self, form: str, *arguments: str) -> str:
        """Return what the client prints in one of its formats."""
        words = [str(_PROGRAM), "-c", str(self.configuration), "client", "--format", form, *arguments]
        return process.run(words, env=dict(os.environ)).check().stdout


def lend_and_return(
    client: DuffyClient, pool: str, quantity: int, admits: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """Lease ready nodes of a pool with every request of the client, give them back, and return the session.

    ``admits`` is whether a node, given as the answers show it, admits the tenant as root.
    """
    assert pool in [listed["name"] for listed in client.call("list-pools")["pools"]]
    shown = client.call("show-pool", pool)["pool"]
    assert (shown["name"], shown["levels"]["ready"] >= quantity) == (pool, True)
    asked = client.call("request-session", f"pool={pool},quantity={quantity}")
    assert asked.get("action") == "post", asked
    session: dict[str, Any] = asked["session"]
    assert session["active"]
    assert [(node["pool"], node["state"]) for node in session["nodes"]] == [(pool, "deployed")] * quantity
    assert all(admits(node) for node in session["nodes"])
    number = str(session["id"])
    assert client.call("list-sessions")["sessions"] == [session]
    shown = client.printed("flat", "show-session", number)
    assert all(f"ipaddr='{node['ipaddr']}'" in shown for node in session["nodes"]), shown
    ended = client.call("retire-session", number)
    assert (ended["action"], ended["session"]["active"]) == ("put", False)
    assert client.call("list-sessions") == {"action": "get", "sessions": []}
    again = client.call("retire-session", number)
    assert again == {"error": {"detail": f"session {number} is retired"}}
    wait_until(lambda: not any(admits(node) for node in session["nodes"]), "the end of the tenant's access")
    return session
