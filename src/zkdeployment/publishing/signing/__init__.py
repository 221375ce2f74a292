"""Signed publications: the text that the syncer signs, and the proof that a target is the signed one.

A publication has a statement, which the syncer signs, and buckets. The statement names the digest of each bucket;
a bucket names the digest of each target in it. A reader of the statement and of one bucket knows the content of a
target, or that there is no such target. Signatures themselves are made and verified by ``publishing.keys``.
"""
