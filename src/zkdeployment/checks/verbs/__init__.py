"""``zkdeployment checks``: verbs on checks and their instances."""

from zkdeployment.cli.verb_group import LazyVerb

VERBS = {
    "checks": LazyVerb("checks.verbs.checks", "Show and change checks, the monitoring of services."),
    "nagios": LazyVerb("checks.program", "Run the bridge of a Nagios in the foreground.", "nagios"),
}
