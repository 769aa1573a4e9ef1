"""The routes, by topic. Each asks the policy, hands work to a thread, and answers."""
