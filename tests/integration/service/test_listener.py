"""The socket that the service listens on."""

import socket

from zkdeployment.service.serving.listener import open_listener


def test_answers_are_sent_without_waiting_for_the_client_to_confirm_their_head():
    with open_listener("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
