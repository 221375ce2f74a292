"""``zkdeployment checks``: the group of verbs; each verb or kind of verb has a module of its own."""

import click

from zkdeployment.cli.places import LazyVerb
from zkdeployment.cli.verb_group import LazyVerbGroup

_VERBS = {
    "abandon": LazyVerb(
        ".checks.verbs.instances", "End the checks of a monitoring system that is gone.", "abandon"
    ),
    "allow-removal": LazyVerb(
        ".checks.verbs.instances",
        "Let a bridge remove many checks that the service does not know.",
        "allow_removal",
    ),
    "create": LazyVerb(".checks.verbs.documents", "Commit new check configurations.", "create"),
    "delete": LazyVerb(".checks.verbs.documents", "Commit the end of a check configuration.", "delete"),
    "diff": LazyVerb(
        ".checks.verbs.documents", "Show which check instances a revision adds, changes and removes.", "diff"
    ),
    "drift": LazyVerb(".checks.verbs.instances", "Show what monitoring systems run differently.", "drift"),
    "instances": LazyVerb(
        ".checks.verbs.instances", "Show check instances: their states and results.", "instances"
    ),
    "list": LazyVerb(".checks.verbs.documents", "List the published check configurations.", "list_checks"),
    "on-call": LazyVerb(
        ".checks.verbs.documents", "Show who is notified about the checks of services.", "on_call"
    ),
    "preview": LazyVerb(".checks.verbs.documents", "Show the instances that a document would make.", "preview"),
    "retry": LazyVerb(".checks.verbs.instances", "Let monitoring systems try failed instances again.", "retry"),
    "show": LazyVerb(".checks.verbs.documents", "Show a check, its instances by state, and its errors.", "show"),
    "simulate": LazyVerb(".checks.verbs.documents", "Play events on one check instance, without a fleet."),
    "summary": LazyVerb(".checks.verbs.instances", "Show monitoring systems and what waits for them.", "summary"),
}


@click.group(name="checks", cls=LazyVerbGroup, verbs=_VERBS)
def command() -> None:
    """Show and change checks: the monitoring that is rolled out with the services.

    \b
    Example:
      zkdeployment checks preview front-http.yaml
      zkdeployment checks create front-http.yaml --reason 'the shop is live'
      zkdeployment checks diff my-branch
      zkdeployment checks list
      zkdeployment checks instances --state rollout_failed
      zkdeployment checks simulate events.json
    """
