"""The port to an OpenID provider, at which people log in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from zkdeployment.model.logins.external import ExternalUser, OpenIdAttempt


class IdentityProvider(Protocol):
    """An OpenID provider.

    Raises ``IdentityProviderError`` if the provider cannot be reached or answers something unacceptable.
    """

    def login_url(self, attempt: OpenIdAttempt, callback: str) -> str:
        """Return the address at the provider where the person logs in; it leads the browser to ``callback``."""

    def find_user(self, code: str, attempt: OpenIdAttempt, callback: str) -> ExternalUser | str:
        """Return the person who logged in, or why the person is no user, for the code given to ``callback``."""
