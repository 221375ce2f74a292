"""``zkdeployment user``: the group of verbs; they need the credentials of the service."""

import click

from zkdeployment.cli.shared.verb_group import LazyVerb, LazyVerbGroup

_VERBS = {
    "add": LazyVerb("user.change", "Add a user and print its key.", "add"),
    "list": LazyVerb("user.listing", "Show all users."),
    "reset-key": LazyVerb("user.change", "Give a user a new key and print it.", "reset_key"),
    "retire": LazyVerb("user.change", "Retire a user permanently.", "retire"),
}


@click.group(name="user", cls=LazyVerbGroup, verbs=_VERBS)
def command() -> None:
    """Add, list and retire users of the service: people and programs that log in with a name and a key.

    Use the configuration of the service: only its credentials may read the users.

    \b
    Example:
      zkdeployment user add alice --role operator
      zkdeployment user list
      zkdeployment user retire alice --reason 'left the team'
    """
