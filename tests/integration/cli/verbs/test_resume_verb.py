"""The resume command on a real ZooKeeper."""

from __future__ import annotations

import threading

import pytest

from zkdeployment.programs.main import main
from zkdeployment.publishing.store.requests import answer_request
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.zookeeper.session import Session


@pytest.fixture
def run(zookeeper, capsys):
    def call(*argv: str):
        with pytest.raises(SystemExit) as end:
            main(["resume", "-z", zookeeper, *argv])
        printed = capsys.readouterr()
        return end.value.code, printed.out, printed.err

    return call


def test_a_stopped_cluster_is_resumed_at_the_published_revision(run, client):
    client.create("/hosts", b'{"version": null}')
    client.create("/zkdeployment/targets", b'{"version": "r1"}', makepath=True)
    assert run() == (0, "resumed at r1\n", "")
    assert client.get("/hosts")[0] == b'{"version":"r1"}'


def test_a_running_cluster_is_refused(run, client):
    client.create("/hosts", b'{"version": "r1"}')
    code, out, err = run()
    assert (code, out) == (3, "")
    assert "neither stopped nor held" in err


def test_without_a_syncer_resuming_at_the_latest_revision_times_out(run):
    code, _, err = run("--latest", "--timeout", "0.2")
    assert code == 5
    assert "no syncer published within 0.2 s" in err


@pytest.mark.parametrize(("error", "code"), [(None, 0), ("the tree does not parse", 1)])
def test_resume_reports_the_answer_of_the_syncer(run, zookeeper, client, error, code):
    client.create("/zkdeployment/targets", b'{"version": "r2"}', makepath=True)
    asked, reasons = threading.Event(), []

    def serve():
        with Session(zookeeper) as session:
            store = ZooKeeperPublications(session)
            store.watch_requests(asked.set)
            while not reasons:
                asked.wait(60)
                asked.clear()
                if (request := store.request()) is not None:
                    reasons.append(request.reason)
                    if error is None:
                        answer_request(session, request, None)
                    else:
                        answer_request(session, request, error)

    serving = threading.Thread(target=serve)
    serving.start()
    exit_code, out, err = run("--latest", "--reason", "fixed", "--timeout", "60")
    serving.join()
    assert reasons == ["fixed"]
    assert exit_code == code
    assert "resumed at r2" in out if error is None else error in err
