"""The `omnigraph` command. Commands import the engine when they run, so help answers at once."""
