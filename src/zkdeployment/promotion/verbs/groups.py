"""``zkdeployment promote``: the group of verbs about promotions."""

from __future__ import annotations

import click

from zkdeployment.cli.verb_group import LazyVerb, LazyVerbGroup

_PROMOTE_VERBS = {
    "run": LazyVerb("promotion.program", "Run a promoter in the foreground.", "run"),
}


@click.group(name="promote", cls=LazyVerbGroup, verbs=_PROMOTE_VERBS)
def promote() -> None:
    """Promote revisions from fleet to fleet.

    \b
    Example:
      zkdeployment promote run /etc/zkdeployment/zkdeployment.cfg
    """
