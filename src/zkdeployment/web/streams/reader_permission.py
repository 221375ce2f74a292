"""Whether the user of a stream may still read: the login is checked again while the stream lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.model.user import Right
from zkdeployment.web.access.cookies import session_token
from zkdeployment.web.access.identity import client_address
from zkdeployment.web.streams.audience import audience_of
from zkdeployment.web.streams.event_hub import Subscriber

if TYPE_CHECKING:
    from fastapi import Request

    from zkdeployment.model.user import User
    from zkdeployment.ports.server import ServerAdapters


def subscriber_for(request: Request, user: User, adapters: ServerAdapters) -> Subscriber:
    """Return the subscriber for a stream of this user, who sent the request with a key or in a login session."""
    token, audience = session_token(request), audience_of(user)
    client = user.name, client_address(request), user.may(Right.ACT_ON_FLEET)
    if "authorization" in request.headers or token is None:
        return Subscriber((user.name, user.key_number), audience, lambda: _has_key(adapters, user), *client)
    return Subscriber(token, audience, lambda: _has_session(adapters, token), *client)


def _has_key(adapters: ServerAdapters, user: User) -> bool:
    """Return whether the user may still read and the key that it used is still its key."""
    now = adapters.users.user(user.name)
    if now is None or now.key_number != user.key_number or now.key_has_expired(adapters.clock.now()):
        return False
    return now.may(Right.READ_POOLS)


def _has_session(adapters: ServerAdapters, token: str) -> bool:
    user = adapters.logins.session_user(token)
    return user is not None and user.may(Right.READ_POOLS)
