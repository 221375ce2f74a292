"""The content of the page of pools: levels, sessions, nodes, and the forms of acts on them."""
