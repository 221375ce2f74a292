"""The frame of the documents beside the tree: forms, reading, edits and the registry of kinds. Pure."""
