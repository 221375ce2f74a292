"""All hosts: status, explanations, history, locks, events, webhooks, and the acts of operators."""
