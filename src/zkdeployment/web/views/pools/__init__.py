"""What the page of pools shows: levels, sessions, nodes, and the forms of acts on them."""
