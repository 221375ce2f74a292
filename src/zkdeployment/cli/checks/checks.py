"""``zkdeployment checks``: the group of verbs; each verb or kind of verb has a module of its own."""

import click

from zkdeployment.cli.shared.verb_group import LazyVerb, LazyVerbGroup

_VERBS = {
    "create": LazyVerb("checks.change", "Commit new check configurations.", "create"),
    "delete": LazyVerb("checks.change", "Commit the end of a check configuration.", "delete"),
    "list": LazyVerb("checks.listing", "List the published check configurations."),
    "preview": LazyVerb("checks.preview", "Show the instances that a document would make."),
    "simulate": LazyVerb("checks.simulate", "Play events on one check instance, without a fleet."),
}


@click.group(name="checks", cls=LazyVerbGroup, verbs=_VERBS)
def command() -> None:
    """Show and change checks: the monitoring that is rolled out with the services.

    \b
    Example:
      zkdeployment checks preview front-http.yaml
      zkdeployment checks create front-http.yaml --reason 'the shop is live'
      zkdeployment checks list
      zkdeployment checks simulate events.json
    """
