"""The adapters that only the service needs: the OpenID provider, webhooks, and places for slow requests."""
