"""Mail, with a real SMTP server."""

import pytest

from support.waiting import wait_until
from support.web.servers import DrippingServer, MailServer
from zkdeployment.base.machine import mail
from zkdeployment.base.machine.mail import SmtpMailer


def test_a_message_is_sent_through_the_server():
    with MailServer() as server:
        SmtpMailer("ops@example.com, on-call@example.com", server=server.address).send("it\nfailed", "because\n")
        server.join()
    head, _, body = server.message.partition("\r\n\r\n")
    assert "Subject: it failed" in head
    assert "From: ops@example.com" in head
    assert "To: ops@example.com, on-call@example.com" in head
    assert body.strip() == "because"


@pytest.mark.parametrize(("address", "server"), [(None, "127.0.0.1:1"), ("ops@example.com", "127.0.0.1:1")])
def test_a_missing_address_or_server_is_not_an_error(address, server):
    assert SmtpMailer(address, server=server).send("subject", "text") is None


@pytest.mark.parametrize("server", ["mail:70000", "mail..example.com", "[::::]"])
def test_an_invalid_server_is_logged_and_has_no_other_effect(server, capsys):
    SmtpMailer("ops@example.com", server=server).send("subject", "text")
    assert "mail-failed" in capsys.readouterr().out


def test_a_server_that_answers_byte_by_byte_does_not_hold_the_agent(monkeypatch, capsys):
    monkeypatch.setattr(mail, "_TIMEOUT", 0.3)
    with DrippingServer(b"220 t") as server:
        SmtpMailer("ops@example.com", server=f"127.0.0.1:{server.port}").send("subject", "text")
        wait_until(lambda: server.accepted, "the connection")
        assert server.accepted == 1
    assert "no answer within 0.3 s" in capsys.readouterr().out
