"""The values of publishing, which syncers and operators use; hosts do not load them."""
