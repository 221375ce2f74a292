"""Acts on host pools; verbs, the API and the pages share them."""
