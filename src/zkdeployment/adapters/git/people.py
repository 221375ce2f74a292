"""The person that git's configuration names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.git.command import Git, GitError
from zkdeployment.model.commits import Author

if TYPE_CHECKING:
    from pathlib import Path


def configured_author(directory: Path) -> Author | None:
    """Return ``user.name`` and ``user.email`` as git finds them in a directory; ``None`` unless both are set."""
    git = Git(directory=directory, timeout=10)
    try:
        name, email = (git.run("config", "--get", f"user.{key}").text for key in ("name", "email"))
    except GitError:
        return None
    return Author.of(name, email) if name and email else None
