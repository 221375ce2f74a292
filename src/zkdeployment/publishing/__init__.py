"""From a commit to a publication: sources, targets, review, signing, the syncer, and acts as commits."""
