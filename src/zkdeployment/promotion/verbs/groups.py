"""``zkdeployment promote``: the group of verbs about promotions."""

from __future__ import annotations

import click

from zkdeployment.cli.places import LazyVerb
from zkdeployment.cli.verb_group import LazyVerbGroup

_DIRECT = ".promotion.verbs.promote"
_BACK = ".promotion.verbs.promote"

_PROMOTE_VERBS = {
    "abort": LazyVerb(_DIRECT, "End the promotion as failed.", "abort"),
    "fail": LazyVerb(_DIRECT, "Fail a group whose metrics wait for data.", "fail"),
    "follow": LazyVerb(_DIRECT, "Promote the tip of main again.", "follow"),
    "pause": LazyVerb(_DIRECT, "Promote to no further fleets.", "pause"),
    "pin": LazyVerb(_DIRECT, "Promote nothing to a fleet beyond a revision.", "pin"),
    "plan": LazyVerb(_DIRECT, "Show what a fleet would do with the commit that comes next.", "plan"),
    "promote": LazyVerb(_DIRECT, "Let a group begin that waits to be promoted.", "promote"),
    "release": LazyVerb(_DIRECT, "Let a withheld fleet take part again.", "release"),
    "reset": LazyVerb(_BACK, "Set the branch of a fleet that diverged to a commit of main.", "reset"),
    "resume": LazyVerb(_DIRECT, "Continue a paused promotion, or try a failed one again.", "resume"),
    "rollback": LazyVerb(_BACK, "Commit an earlier revision to main, for the bad fleets first.", "rollback"),
    "run": LazyVerb(".promotion.program", "Run a promoter in the foreground.", "run"),
    "run-from": LazyVerb(_DIRECT, "Promote a commit in place of the tip of main.", "run_from"),
    "show": LazyVerb(_DIRECT, "Show the groups and fleets of the newest promotion.", "show"),
    "unpin": LazyVerb(_DIRECT, "Let promotions beyond its pin reach a fleet again.", "unpin"),
    "withhold": LazyVerb(_DIRECT, "Promote nothing to a fleet until it is released.", "withhold"),
}


@click.group(name="promote", cls=LazyVerbGroup, verbs=_PROMOTE_VERBS)
def promote() -> None:
    """Promote revisions from fleet to fleet: run the promoter, watch and direct promotions, and go back.

    \b
    Example:
      zkdeployment promote run /etc/zkdeployment/zkdeployment.cfg
      zkdeployment promote show --watch
      zkdeployment promote promote europe --reason 'the canaries look good'
    """
