"""``zkdeployment tree``: the group of verbs; each kind of verb has a module of its own."""

import click

from zkdeployment.cli.shared.verb_group import LazyVerb, LazyVerbGroup

_VERBS = {
    "diff": LazyVerb("tree.diff", "Compare the live tree with git or with files."),
    "export": LazyVerb("tree.read", "Print the live tree as text without ephemeral nodes.", "export"),
    "get": LazyVerb("tree.read", "Print properties of a node as JSON.", "get"),
    "import": LazyVerb("tree.change", "Change the live tree to the content of files.", "import_"),
    "ln": LazyVerb("tree.change", "Make a symbolic link in the live tree.", "ln"),
    "rm": LazyVerb("tree.change", "Remove a node or a symbolic link from the live tree.", "rm"),
    "show": LazyVerb("tree.read", "Show the live tree, or the tree of files.", "show"),
}


@click.group(name="tree", cls=LazyVerbGroup, verbs=_VERBS)
def command() -> None:
    """Show, read, compare and change the tree.

    \b
    Example:
      zkdeployment tree show /shop
      zkdeployment tree get /shop/web version
      zkdeployment tree diff tree/
    """
