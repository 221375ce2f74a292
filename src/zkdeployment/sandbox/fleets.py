"""Several fleets on one machine under one promoter: each has its own ensemble, syncer, service and branch.

The first fleet is the home of all: its sandbox has the repositories, the promoter and the other fleets.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.sandbox import samples
from zkdeployment.sandbox.fleet import Sandbox

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zkdeployment.base.host import Host

#: The limit of fleets on one machine; each has a ZooKeeper, a syncer, a coordinator and a service.
MAX_FLEETS = 9

PROMOTION = """\
schema: zkdeployment/Promotion/v1
data:
  groups:
    - name: canary
      critical: true
      depends_on: []
      selectors: [{node_tags: [canary]}]
      success_criteria: {percent_successful_nodes: 100}
      bake_time: 3
    - name: rest
      critical: true
      depends_on: [canary]
      selectors: []
      success_criteria: {percent_successful_nodes: 100}
"""


def start_fleets(
    home: Sandbox,
    hosts: Sequence[Host],
    count: int,
    *,
    with_samples: bool = False,
    report: Callable[[str], None] = lambda _: None,
) -> Mapping[str, Sandbox]:
    """Start ``count`` fleets with these hosts each, and a promoter in ``home``; return their sandboxes by name.

    With samples, the first promotion is pushed. After an error all fleets are removed.
    """
    if not 2 <= count <= MAX_FLEETS:
        raise ConfigurationError(f"--fleets: expected 2 to {MAX_FLEETS} fleets, found {count}")
    names = [f"fleet{number}" for number in range(1, count + 1)]
    others = {name: Sandbox(home.layout.fleet(name)) for name in names[1:]}
    fleets = {names[0]: home, **others}
    home.up(hosts, service=True, follows=f"fleets/{names[0]}", report=_prefixed(report, names[0]))
    try:
        for name, sandbox in others.items():
            sandbox.up(
                hosts,
                service=True,
                follows=f"fleets/{name}",
                home=home.directory,
                report=_prefixed(report, name),
            )
        report("starting the promoter")
        home.add_promoter(fleets)
        if with_samples:
            report("building and pushing the samples")
            with tempfile.TemporaryDirectory(prefix="zkdeployment-") as scratch:
                home.add_rpms(samples.build(Path(scratch)))
            push_samples(home, fleets, hosts, "The sample tree, for all fleets")
    except BaseException:
        home.down()
        raise
    return fleets


def _prefixed(report: Callable[[str], None], name: str) -> Callable[[str], None]:
    return lambda text: report(f"{name}: {text}")


def push_samples(
    home: Sandbox, fleets: Mapping[str, Sandbox], hosts: Sequence[Host], message: str, *, version: str = "1.0"
) -> str:
    """Push the sample tree with the documents of the fleets to the main branch, and return the revision."""
    with tempfile.TemporaryDirectory(prefix="zkdeployment-") as scratch:
        text = samples.tree([host.identity for host in hosts], version=version, worker=False)
        (Path(scratch) / "demo.zk").write_text(text, encoding="utf-8")
        (Path(scratch) / "fleets.yaml").write_text(fleets_document(fleets), encoding="utf-8")
        (Path(scratch) / "promotion.yaml").write_text(PROMOTION, encoding="utf-8")
        return home.push(Path(scratch), message)


def fleets_document(fleets: Mapping[str, Sandbox]) -> str:
    """Return the text of the document that names the fleets; the first one is the canary."""
    listed = []
    for number, (name, sandbox) in enumerate(fleets.items()):
        status = sandbox.status()
        listed.append(
            {
                "name": name,
                "branch": status["follows"],
                "service": status["server"]["url"],
                "tags": [] if number else ["canary"],
            }
        )
    return json.dumps({"schema": "zkdeployment/Fleets/v1", "data": {"fleets": listed}}, indent=2) + "\n"
