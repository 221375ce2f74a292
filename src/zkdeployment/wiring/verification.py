"""Builds the check of a whole fleet's publication by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import tenacity

from zkdeployment.adapters.publisher_keys import check_keys
from zkdeployment.adapters.ssh_signatures import verify_text
from zkdeployment.adapters.zookeeper.client.session import Session
from zkdeployment.adapters.zookeeper.operator.signed_fleet import read_signed_fleet
from zkdeployment.errors import ConflictError, RefusedError, UntrustedError
from zkdeployment.planning.signed_fleet import fleet_deviations, services_of
from zkdeployment.signing.checking import Deviation
from zkdeployment.signing.statement import NAMESPACE, SignedStatement, Statement

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.intents.approvals import KeyOwner
    from zkdeployment.model.servers import Servers
    from zkdeployment.planning.signed_fleet import SignedFleet

#: How often the fleet is read while publications are written.
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of a check: who signed which statement, and all differences.

    ``signer`` and ``statement`` are ``None`` without a valid signature; nothing else was compared then.
    """

    signer: KeyOwner | None
    statement: Statement | None
    deviations: tuple[Deviation, ...]
    targets: int = 0
    services: int = 0


def verify_fleet(servers: Servers, publishers: Path) -> Verification:
    """Return the check of the publication in ZooKeeper against the keys in ``publishers``.

    Raises ``ConfigurationError`` if the file cannot be read or has no key of publications, ``ConflictError`` if
    publications keep being written, and ``UnreachableError``.
    """
    check_keys(publishers, NAMESPACE)  # a mistake is reported before ZooKeeper is asked
    retrying = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(_ATTEMPTS),
        retry=tenacity.retry_if_exception_type(ConflictError),
        reraise=True,
    )
    with Session(servers) as session:
        fleet = retrying(read_signed_fleet, session)
    return _verify(fleet, publishers)


def _verify(fleet: SignedFleet, publishers: Path) -> Verification:
    expected = f"one by a publisher in {publishers}"
    if not fleet.signed:
        return Verification(None, None, (Deviation("signature", expected, "none"),))
    try:
        signed = SignedStatement.from_data(fleet.signed)
        signer = verify_text(publishers, NAMESPACE, signed.text, signed.signature)
        statement = Statement.from_text(signed.text)
    except UntrustedError as error:
        return Verification(None, None, (Deviation("statement", expected, str(error)),))
    except RefusedError as error:
        return Verification(None, None, (Deviation("signature", expected, str(error)),))
    return Verification(
        signer,
        statement,
        tuple(fleet_deviations(statement, fleet)),
        len(fleet.targets),
        len(services_of(fleet.targets)),
    )
