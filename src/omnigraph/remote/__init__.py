"""The client: a served graph, used like one that is opened."""
