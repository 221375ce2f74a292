"""The socket that the service listens on."""

import errno
import socket

import pytest

from zkdeployment.base.errors import ConfigurationError, ZkdeploymentError
from zkdeployment.service.serving.listener import open_listener


def test_answers_are_sent_without_waiting_for_the_client_to_confirm_their_head():
    with open_listener("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (socket.gaierror(socket.EAI_AGAIN, "try again"), ZkdeploymentError),
        (OSError(errno.EADDRNOTAVAIL, "no such address"), ZkdeploymentError),
        (socket.gaierror(socket.EAI_NONAME, "no such name"), ConfigurationError),
    ],
)
def test_an_address_that_may_be_usable_later_is_no_error_of_the_configuration(monkeypatch, error, kind):
    def refuse(*_, **__):
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    with pytest.raises(ZkdeploymentError, match="cannot listen on here port 80") as raised:
        open_listener("here", 80)
    assert type(raised.value) is kind
