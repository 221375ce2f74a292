"""Rollouts as operators see them: states, sentences, views, and the directives that a rollout accepts."""
