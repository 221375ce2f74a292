from zkdeployment.sandbox.demo import ScriptRun, overlaps, script_runs


def test_runs_are_read_from_all_hosts_in_order(tmp_path):
    logs = {
        "a": "1 begin /s/x 0\n2 end /s/x 0\n3 begin /s/x 1\n4 end /s/x 1\n0 begin /s/y 0\n9 end /s/y 0\n",
        "b": "2.5 begin /s/x 0\n2.9 end /s/x 0\n",
    }
    for host, text in logs.items():
        log = tmp_path / host / "var" / "log" / "hello.log"
        log.parent.mkdir(parents=True)
        log.write_text(text, encoding="utf-8")
    roots = {host: tmp_path / host for host in logs}
    assert script_runs(roots, "hello", "/s/x", since=0) == [
        ScriptRun(1, 2, "a"),
        ScriptRun(2.5, 2.9, "b"),
        ScriptRun(3, 4, "a"),
    ]
    assert script_runs(roots, "hello", "/s/x", since=2.7) == [ScriptRun(3, 4, "a")]


def test_runs_on_two_hosts_at_once_overlap():
    assert overlaps([ScriptRun(1, 3, "a"), ScriptRun(2, 4, "b")]) == [(ScriptRun(1, 3, "a"), ScriptRun(2, 4, "b"))]


def test_runs_one_after_another_or_on_one_host_do_not():
    assert overlaps([ScriptRun(1, 2, "a"), ScriptRun(2, 3, "b"), ScriptRun(2.5, 4, "b")]) == []
