"""The contributions of editors to the frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.features import Feature

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import APIRouter

    from zkdeployment.cli.verb_group import LazyVerb


def _page_routers() -> tuple[APIRouter, ...]:
    from zkdeployment.editors import pages

    return (pages.router,)


def _verbs() -> Mapping[str, LazyVerb]:
    from zkdeployment.cli.verb_group import LazyVerb

    return {
        "language-server": LazyVerb(
            "editors.verbs", "Serve an editor: problems, completion and links in trees.", "language_server"
        ),
        "schemas": LazyVerb("editors.verbs", "Print the JSON schemas of documents.", "schemas"),
    }


FEATURE = Feature(page_routers=_page_routers, verbs=_verbs)
