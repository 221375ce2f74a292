"""A coverage-guided fuzzer for everything that outsiders may send: texts, nodes and answers."""
