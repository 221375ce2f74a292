"""The buckets of a publication, computed from the previous ones, are equal to those of a whole computation."""

from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.publishing.signing.standing import SignedTargets
from zkdeployment.publishing.signing.statement import bucket_of

names = st.sampled_from([f"app{number}" for number in range(600)])
targets = st.dictionaries(names, st.binary(max_size=4), max_size=30)


@given(targets, targets)
def test_a_change_gives_the_result_of_a_whole_computation(before, after):
    changed = {name: data for name, data in after.items() if before.get(name) != data}
    signed = SignedTargets().after(before)
    assert signed.after(changed, before.keys() - after.keys()) == SignedTargets().after(after)
    assert signed == SignedTargets().after(before)


def test_a_change_of_one_target_changes_one_bucket():
    before = SignedTargets().after({f"app{number}": b"old" for number in range(2000)})
    after = before.after({"app7": b"new"})
    changed = {bucket for bucket in before.data if before.data[bucket] is not after.data[bucket]}
    assert changed == {bucket_of("app7")}
    assert {bucket for bucket, digest in before.digests.items() if digest != after.digests[bucket]} == changed


def test_many_targets_are_spread_over_all_buckets():
    signed = SignedTargets().after({f"app{number}.example.com": b"" for number in range(10_000)})
    assert len(signed.data) == 256
    assert max(map(len, signed.targets.values())) < 80
