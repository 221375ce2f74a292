"""``zkdeployment checks``: the group of verbs; each verb or kind of verb has a module of its own."""

import click

from zkdeployment.cli.shared.verb_group import LazyVerb, LazyVerbGroup

_VERBS = {
    "simulate": LazyVerb("checks.simulate", "Play events on one check instance, without a fleet."),
}


@click.group(name="checks", cls=LazyVerbGroup, verbs=_VERBS)
def command() -> None:
    """Show and change checks: the monitoring that is rolled out with the services.

    \b
    Example:
      zkdeployment checks simulate events.json
    """
