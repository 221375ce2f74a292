"""Lists the services that are not deployed because of the state of their intents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.documents.intents.values import subject_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from zkdeployment.intents.instances import IntentRecord
    from zkdeployment.model.host import Identity
    from zkdeployment.model.publishing.left_service import LeftService
    from zkdeployment.planning.targets.withheld import ServiceTarget

#: The most services that a host's explanation names.
_NAMED = 20


def withheld_from_host(
    identity: Identity,
    withheld: Collection[ServiceTarget],
    read_records: Callable[[], Iterable[IntentRecord]],
    left: Iterable[LeftService] = (),
) -> tuple[str, ...]:
    """Return a sentence for each service that a host would deploy if its intent were instantiated.

    ``read_records`` returns the records of all intents; it is called only if there is such a service. ``left`` are
    the services that left the governance of their intents.
    """
    names = {identity.role} if identity.role is not None else {*identity.target_names}
    selected = [(path, target) for path, target in sorted(withheld) if target in names]
    if not selected:
        return ()
    sentences = [*withheld_sentences(selected, read_records(), left)]
    more = len(sentences) - _NAMED
    return (*sentences[:_NAMED], *([f"and {more} more services are not deployed"] if more > 0 else []))


def withheld_below(withheld: Collection[ServiceTarget], path: str) -> list[ServiceTarget]:
    """Return the withheld services at and below a path; empty, it is the root."""
    return [(service, target) for service, target in sorted(withheld) if f"{service}/".startswith(f"{path}/")]


def withheld_sentences(
    withheld: Iterable[ServiceTarget], records: Iterable[IntentRecord], left: Iterable[LeftService] = ()
) -> Iterator[str]:
    """Yield a sentence for each withheld service: where it is not deployed, and why."""
    left = tuple(left)
    owners: dict[str, list[IntentRecord]] = {}
    for record in records:
        if not record.state.is_active:
            for paths in record.intent.apps.values():
                for path in paths:
                    owners.setdefault(path, []).append(record)
    for path, target in withheld:
        owner = _owner(owners, path, target)
        former = next((one.sentence for one in left if one.covers(path, target)), None)
        governed = former if owner is None else f"{subject_text(owner.intent.subject)} is {owner.state.value}"
        yield f"{path} is not deployed to {target}{'' if governed is None else f': {governed}'}"


def _owner(owners: Mapping[str, list[IntentRecord]], path: str, target: str) -> IntentRecord | None:
    """Return the record of the intent that withholds a service from a target, if it is known."""
    while path:
        for record in owners.get(path, ()):
            if record.intent.target in {None, target}:
                return record
        path = path.rpartition("/")[0]
    return None
