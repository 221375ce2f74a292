"""The contract of ``ports.publication.PublicationSigner`` and ``ports.trust.PublisherKeys``."""

from types import SimpleNamespace

import pytest

from simulation.signatures import RotatedKeys, SimulatedKey, SimulatedPublishers
from support.keys import make_key, make_publishers
from zkdeployment.base.errors import UntrustedError
from zkdeployment.publishing.keys import PublisherKeysFile, PublishKey
from zkdeployment.publishing.signing.statement import SignedStatement

TEXT = "what a syncer publishes\n"


class SimulatedSignatures:
    """The keys of a simulated fleet."""

    def __init__(self) -> None:
        keys = RotatedKeys()
        self._world = SimpleNamespace(keys=keys, take_time=lambda *_: None)
        self.publishers = SimulatedPublishers(self._world)
        self.publisher = SimulatedKey(self._world)
        keys.used = "a stranger"
        self.stranger = SimulatedKey(self._world)


class SshSignatures:
    """The keys of a fleet in files for ssh-keygen."""

    def __init__(self, directory) -> None:
        key = make_key(directory / "publisher")
        self.publishers = PublisherKeysFile(make_publishers(directory / "publishers", key))
        self.publisher = PublishKey(key)
        self.stranger = PublishKey(make_key(directory / "stranger"))


@pytest.fixture(params=["simulated", "by ssh-keygen"])
def signatures(request, tmp_path):
    return SimulatedSignatures() if request.param == "simulated" else SshSignatures(tmp_path)


def signed(signer, text=TEXT):
    return SignedStatement(text, signer.start(text)())


def test_publishers_trust_statements_of_their_signer(signatures):
    signatures.publishers.verify(signed(signatures.publisher))


def test_the_publishers_refuse_the_signature_of_a_stranger_and_of_another_text(signatures):
    other = SignedStatement(TEXT, signed(signatures.publisher, "another text\n").signature)
    for statement in (signed(signatures.stranger), other):
        with pytest.raises(
            UntrustedError, match=r"^the publication is not signed by one of the publishers of this host"
        ):
            signatures.publishers.verify(statement)


def test_a_signer_recognises_its_own_signatures(signatures):
    assert signatures.publisher.made(signed(signatures.publisher))
    assert not signatures.publisher.made(signed(signatures.stranger))


def test_an_expected_text_and_an_abandoned_one_do_not_change_signatures(signatures):
    signer = signatures.publisher
    signer.expect()
    assert signer.made(signed(signer))
    signer.expect()
    signer.abandon()
    assert signer.made(signed(signer))
