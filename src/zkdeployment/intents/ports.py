"""The adapters of intents that have more than one implementation."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.intents.documents.values import Approval, IntentSubject


#: Signs the approval of a subject, and adds the name of the key's owner. An approval without a signature has the
#: last instance, and gets the next one.
ApprovalSigner: TypeAlias = "Callable[[IntentSubject, Approval], Approval]"
